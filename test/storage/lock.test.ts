import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkFile } from '../../build/storage/check.js';
import { fileStorage } from '../../build/storage/file.js';
import { takeLease, type Lease, type LeaseTime } from '../../build/storage/lease.js';
import { isHeldElsewhere, lockingOn } from '../../build/storage/lock.js';
import { openJournal } from '../../build/storage/open-journal.js';
import { nodeDisk } from '../../build/storage/disk.js';
import { fileWith, newPath } from './scene.js';
import { systemError } from './system-errors.js';

const inUse = { name: 'PetstoreError', code: 'storage_in_use' };
const writer = fileURLToPath(new URL('writer.ts', import.meta.url));

interface Child {
  readonly process: ChildProcess;
  readonly lines: Interface;
  readonly ended: Promise<void>;
  /** The first line that it says. */
  readonly first: Promise<string>;
}

function start(path: string, adders = 0): Child {
  const child = spawn(process.execPath, ['--import', 'tsx', writer, path, String(adders)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const first = new Promise<string>((resolve) => lines.once('line', resolve));
  return { process: child, lines, ended, first };
}

test('F4 a second process is refused at once with the pid of the first, and kill -9 frees the file', async () => {
  const path = newPath();
  const first = start(path);
  assert.equal(await first.first, 'open 0');
  await assert.rejects(fileStorage(path), { ...inUse, message: new RegExp(`in use by process ${first.process.pid}\\b`) });
  const second = start(path);
  assert.match(await second.first, new RegExp(`^refused .* in use by process ${first.process.pid}\\b`));
  first.process.kill('SIGSTOP');
  await assert.rejects(fileStorage(path), inUse);
  first.process.kill('SIGKILL');
  await Promise.all([first.ended, second.ended]);
  await (await fileStorage(path)).close();
});

test('F4 a second open in the same process is refused, until the first is closed', async () => {
  const path = newPath();
  const storage = await fileStorage(path);
  await assert.rejects(fileStorage(path), { ...inUse, message: new RegExp(`process ${process.pid}\\b`) });
  await storage.close();
  const again = await fileStorage(path);
  await again.close();
});

test('F4 of several starters exactly one gets the file', async () => {
  const path = newPath();
  const starters = Array.from({ length: 4 }, () => start(path));
  const said = await Promise.all(starters.map((child) => child.first));
  assert.equal(said.filter((line) => line.startsWith('open')).length, 1, said.join('\n'));
  assert.equal(said.filter((line) => line.includes('in use')).length, 3, said.join('\n'));
  for (const child of starters) child.process.kill('SIGKILL');
  await Promise.all(starters.map((child) => child.ended));
});

test('kill -9 with many adding loses no acknowledged animal, and C31 no id is used twice', async () => {
  const path = newPath();
  const ledger = new Map<string, string>();
  for (let cycle = 1; cycle <= 4; cycle++) {
    const child = start(path, 8);
    const enough = ledger.size + 40 * cycle;
    child.lines.on('line', (line) => {
      const [id = '', ...name] = line.split(' ');
      if (id !== 'open') {
        assert.ok(!ledger.has(id), `id ${id} twice`);
        ledger.set(id, name.join(' '));
      }
      if (ledger.size >= enough) child.process.kill('SIGKILL');
    });
    assert.match(await child.first, /^open/);
    await child.ended;
  }
  assert.notEqual((await checkFile(path)).verdict, 'damaged');
  const storage = await fileStorage(path);
  for (const [id, name] of ledger) assert.equal((await storage.get(BigInt(id)))?.name, name);
  await storage.close();
});

/** Time that a test moves: `pass` lets the wait that ends first end, once everybody who should wait does. */
class HeldTime implements LeaseTime {
  #now = 0;
  #waits: { readonly at: number; readonly end: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  wait(ms: number, { signal }: { readonly signal?: AbortSignal }): Promise<void> {
    return new Promise((resolve, reject) => {
      const wait = { at: this.#now + ms, end: resolve };
      this.#waits.push(wait);
      signal?.addEventListener('abort', () => {
        this.#waits = this.#waits.filter((other) => other !== wait);
        reject(signal.reason);
      });
    });
  }

  async pass(waiters: number, givenUp: () => boolean = () => false): Promise<void> {
    while (this.#waits.length < waiters) {
      if (givenUp()) return;
      await new Promise(setImmediate);
    }
    this.#waits.sort((a, b) => a.at - b.at);
    const next = this.#waits.shift();
    this.#now = Math.max(this.#now, next?.at ?? 0);
    next?.end();
  }

  /** As if the process had been stopped for so long. */
  advance(ms: number): void {
    this.#now += ms;
  }
}

/** Lets time pass for a number of waiters until a promise is settled. */
async function settled<T>(time: HeldTime, waiters: number, promise: Promise<T>): Promise<T> {
  let done = false;
  const watched = promise.finally(() => (done = true));
  watched.catch(() => undefined);
  while (!done) await time.pass(waiters, () => done);
  return watched;
}

test('F4 without a kernel lock a lease keeps others out while its owner renews it', async () => {
  const path = fileWith('');
  const time = new HeldTime();
  const lease = await takeLease(path, time);
  assert.match(readFileSync(`${path}.lock`, 'utf8'), new RegExp(`^pid ${process.pid} `));
  await assert.rejects(settled(time, 2, takeLease(path, time)), { ...inUse, message: new RegExp(`process ${process.pid}\\b`) });
  assert.equal(lease.lost(), false);
  await lease.release();
  const next = await takeLease(path, time);
  await next.release();
});

test('F4 a lease whose owner fell silent is taken over, and the owner notices', async () => {
  const path = fileWith('');
  const stopped = new HeldTime();
  const owner = await takeLease(path, stopped);
  const time = new HeldTime();
  const taker: Lease = await settled(time, 1, takeLease(path, time));
  assert.ok(time.now() >= 12_000);
  stopped.advance(12_000);
  assert.equal(owner.lost(), true, 'by its own clock, before it looks');
  await stopped.pass(1);
  await owner.release();
  assert.equal(taker.lost(), false);
  assert.match(readFileSync(`${path}.lock`, 'utf8'), / beat /, 'the former owner left the new lease alone');
  await taker.release();
});

test('F4 of two who take over the same silent lease one stays', async () => {
  const path = fileWith('');
  writeFileSync(`${path}.lock`, 'pid 1 token dead beat 7\n');
  const times = [new HeldTime(), new HeldTime()];
  const outcomes = await Promise.allSettled(times.map((time) => settled(time, 1, takeLease(path, time))));
  const taken = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
  // One who was slow between the silence and the take-over comes after the other had looked; that one sees it later.
  const noticed = (): boolean => taken.some((lease) => lease.lost());
  for (const time of taken.length === 2 ? times : []) await time.pass(1, noticed);
  while (taken.filter((lease) => !lease.lost()).length !== 1) await new Promise(setImmediate);
  for (const lease of taken) await lease.release();
});

test('F6 a journal whose lock is lost writes nothing more', async () => {
  const path = newPath();
  let lost = false;
  const lock = { lost: () => lost, release: async () => undefined };
  const options = { disk: nodeDisk, locking: { openFlags: 0, lock: async () => lock }, log: () => undefined, clock: Date.now };
  const journal = await openJournal(path, options, () => undefined);
  await journal.append([]);
  const before = readFileSync(path);
  lost = true;
  await assert.rejects(journal.append([]), { code: 'unavailable' });
  assert.deepEqual(readFileSync(path), before);
  await journal.close();
});

test('each platform locks in its own way', async () => {
  const path = fileWith('');
  assert.equal(lockingOn('darwin').openFlags & 0x20, 0x20);
  assert.equal(lockingOn('linux').openFlags, 0);
  assert.ok(isHeldElsewhere(systemError('EAGAIN')) && !isHeldElsewhere(systemError('EACCES')));
  const descriptor = openSync(path, 'r+');
  await (await lockingOn('darwin').lock(descriptor, path)).release();
  for (const locking of [lockingOn('win32'), lockingOn('linux', '/no/such/program')]) {
    const lock = await locking.lock(descriptor, path);
    assert.match(readFileSync(`${path}.lock`, 'utf8'), /^pid/, 'a lease');
    await lock.release();
  }
  // A program that cannot be run now is no platform without one: others may hold the kernel's lock.
  await assert.rejects(lockingOn('linux', dirname(path)).lock(descriptor, path), /could not be run/);
  assert.equal(existsSync(`${path}.lock`), false);
  closeSync(descriptor);
});

test("F4 who finds no flock program is kept out by the kernel's lock of one who found it, and leaves no lease", async () => {
  const path = fileWith('');
  const [first, second] = [openSync(path, 'r+'), openSync(path, 'r+')];
  await lockingOn('linux').lock(first, path);
  const refused = lockingOn('linux', '/no/such/program').lock(second, path);
  await assert.rejects(refused, { ...inUse, message: new RegExp(`process ${process.pid}\\b`) });
  assert.equal(existsSync(`${path}.lock`), false);
  closeSync(first);
  await (await lockingOn('linux', '/no/such/program').lock(second, path)).release();
  closeSync(second);
});

test("F4 who takes the kernel's lock is kept out by the lease of one who found no flock program, while it is renewed", async () => {
  const path = fileWith('');
  const [first, second] = [openSync(path, 'r+'), openSync(path, 'r+')];
  const time = new HeldTime();
  const lease = await lockingOn('linux', '/no/such/program', time).lock(first, path);
  const locking = lockingOn('linux', 'flock', time);
  const refused = settled(time, 2, locking.lock(second, path));
  await assert.rejects(refused, { ...inUse, message: new RegExp(`process ${process.pid}\\b`) });
  assert.equal(lease.lost(), false);
  await lease.release();
  const before = time.now();
  await locking.lock(second, path);
  assert.equal(time.now(), before, 'without a lease there is nothing to wait for');
  for (const descriptor of [first, second]) closeSync(descriptor);
});

test("F4 a lease whose owner fell silent is taken away by one who has the kernel's lock, so that the next need not wait", async () => {
  const path = fileWith('');
  writeFileSync(`${path}.lock`, 'pid 1 token dead beat 7\n');
  const descriptor = openSync(path, 'r+');
  const time = new HeldTime();
  await settled(time, 1, lockingOn('linux', 'flock', time).lock(descriptor, path));
  assert.ok(time.now() >= 10_000);
  assert.equal(existsSync(`${path}.lock`), false);
  closeSync(descriptor);
});

test('F4 a file that opening finds locked is in use', async () => {
  const disk = { ...nodeDisk, open: () => Promise.reject(systemError('EAGAIN')) };
  await assert.rejects(fileStorage(newPath(), { disk }), inUse);
});
