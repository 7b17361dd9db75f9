/**
 * Owns keeping a file to one process where the kernel has no lock for it: a lease, `FILE.lock`, that its owner renews
 * and that another may take over after a silence. Knows not what the file is.
 */
import { randomUUID } from 'node:crypto';
import { open, readFile, rename, rm, type FileHandle } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { errnoOf } from './disk.js';
import { leasePathOf } from './lock.js';
import { inUse } from './unusable.js';

/** Time, as a lease needs it. */
export interface LeaseTime {
  /** Milliseconds from any start, never going back. */
  now(): number;
  /** Resolves after so many milliseconds; `ref: false` keeps no process alive, and `signal` ends the wait by rejecting. */
  wait(ms: number, options: { readonly ref: boolean; readonly signal?: AbortSignal }): Promise<unknown>;
}

const beatMs = 2000;
/** A lease that has not changed for this long has no owner. */
const silenceMs = 10_000;
/** An owner who could not renew for this long counts it as lost, well before another may take it. */
const lostMs = silenceMs - 2 * beatMs;

const realTime: LeaseTime = { now: () => performance.now(), wait: (ms, options) => wait(ms, undefined, options) };

/**
 * Takes the lease of a file, which takes 12 s behind an owner who died.
 * @throws PetstoreError `storage_in_use` where another process renews it or is faster.
 */
export async function takeLease(path: string, time: LeaseTime = realTime): Promise<Lease> {
  const leasePath = leasePathOf(path);
  const token = randomUUID();
  const fresh = await createLease(leasePath, token);
  if (fresh !== undefined) return new Lease(leasePath, token, fresh, time);

  await waitForSilence(leasePath, path, time);
  const ours = `${leasePath}-${token}`;
  const handle = await createLease(ours, token);
  if (handle === undefined) throw new Error(`${ours} exists`);
  await rename(ours, leasePath);
  // Whoever watched the same silence may do the same now; the last one stays.
  await time.wait(beatMs, { ref: true });
  if ((await tokenIn(leasePath)) !== token) {
    await handle.close();
    throw inUse(path, pidIn(await textOf(leasePath)));
  }
  return new Lease(leasePath, token, handle, time);
}

/**
 * Takes away the lease of a file, for one who has the kernel's lock: within 10 s, where its owner died.
 * @throws PetstoreError `storage_in_use` where another process renews it.
 */
export async function clearLease(path: string, time: LeaseTime = realTime): Promise<void> {
  const leasePath = leasePathOf(path);
  await waitForSilence(leasePath, path, time);
  // One who takes it over just now sees the kernel's lock behind that, and leaves.
  await rm(leasePath, { force: true });
}

/** A lease that is renewed until it is released. */
export class Lease {
  readonly #path: string;
  readonly #token: string;
  readonly #handle: FileHandle;
  readonly #time: LeaseTime;
  readonly #released = new AbortController();
  readonly #renewing: Promise<void>;
  #renewedAt: number;
  #taken = false;

  constructor(path: string, token: string, handle: FileHandle, time: LeaseTime) {
    this.#path = path;
    this.#token = token;
    this.#handle = handle;
    this.#time = time;
    this.#renewedAt = time.now();
    this.#renewing = this.#renew();
  }

  /** Whether another process has it, or may have it because it was not renewed in time. */
  lost(): boolean {
    return this.#taken || this.#time.now() - this.#renewedAt > lostMs;
  }

  /** Ends it, so that the next need not wait. */
  async release(): Promise<void> {
    this.#released.abort();
    await this.#renewing;
    await this.#handle.close();
    if ((await tokenIn(this.#path)) === this.#token) await rm(this.#path, { force: true });
  }

  async #renew(): Promise<void> {
    const { signal } = this.#released;
    for (let beat = 1; !this.#taken && !signal.aborted; beat++) {
      await this.#time.wait(beatMs, { ref: false, signal }).catch(() => undefined);
      if (!signal.aborted) await this.#beat(beat).catch(() => undefined);
    }
  }

  async #beat(beat: number): Promise<void> {
    const startedAt = this.#time.now();
    this.#taken = (await tokenIn(this.#path)) !== this.#token;
    if (this.#taken) return;
    // Into our own file, wherever it is by now: never over the lease of one who took its place.
    await this.#handle.write(leaseText(this.#token, beat), 0);
    this.#renewedAt = startedAt;
  }
}

async function createLease(leasePath: string, token: string): Promise<FileHandle | undefined> {
  try {
    const handle = await open(leasePath, 'wx', 0o600);
    await handle.write(leaseText(token, 0), 0);
    return handle;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return undefined;
    throw error;
  }
}

/** One line, always longer than the one before or as long, so that it can be written in place. */
function leaseText(token: string, beat: number): string {
  return `pid ${process.pid} token ${token} beat ${beat}\n`;
}

async function waitForSilence(leasePath: string, path: string, time: LeaseTime): Promise<void> {
  const first = await textOf(leasePath);
  for (const start = time.now(); time.now() - start < silenceMs; ) {
    await time.wait(beatMs / 2, { ref: true });
    if ((await textOf(leasePath)) !== first) throw inUse(path, pidIn(first));
  }
}

async function textOf(leasePath: string): Promise<string> {
  return readFile(leasePath, 'utf8').catch(() => '');
}

async function tokenIn(leasePath: string): Promise<string | undefined> {
  return / token (\S+) /.exec(await textOf(leasePath))?.[1];
}

function pidIn(text: string): number | undefined {
  const pid = /^pid ([0-9]+) /.exec(text)?.[1];
  return pid === undefined ? undefined : Number(pid);
}
