/**
 * R3: the order of system calls: the 201 follows the synced write, and no write follows a failed
 * sync.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { key } from '../support/fixture.js';
import { folder } from '../support/process.js';
import { until } from '../support/waiting.js';
import type { Clients } from './clients.js';
import { tool } from './file-system.js';
import { idOf } from './ledger.js';
import { atOnce, count, needPrograms, Skip, type TortureRow, type Share } from './row.js';
import { Scene } from './scene.js';

const fullAdds = 2000;
const writers = 8;
/** The number of libuv's threads for the disk. */
const threads = 4;
const failingSyncModule = fileURLToPath(new URL('failing-sync.js', import.meta.url));
const tracedCalls = 'openat,write,writev,pwrite64,pwritev,sendto,sendmsg,fdatasync,fsync,ftruncate';
const draft = { name: 'pet', categoryId: 1 };

export const syncOrder: TortureRow = {
  id: 'R3',
  title:
    'order of the system calls under `strace -f`: a write with O_DSYNC before its 201, a sync of the folder before the first 201, no write after a failed sync',
  fullS: 5,
  run: async (share) => {
    needPrograms('strace');
    try {
      tool('strace', '-f', '-o', '/dev/null', 'true');
    } catch {
      throw new Skip('strace must not trace processes here');
    }
    const adds = await traceSound(share);
    let faults = 0;
    for (const errno of ['EIO', 'ENOSPC', 'EDQUOT']) {
      for (const when of [1, 2 + share.random.below(20)]) {
        await traceFailingSync(share, errno, when);
        await traceFailingWrite(share, errno, when);
        faults++;
      }
    }
    return `${count(adds, fullAdds, 'adds')}, ${faults} failed syncs and ${faults} failed writes: 0 violations`;
  },
};

/** Adds pets by several clients at once, without a fault, and returns the number of pets. */
async function traceSound(share: Share): Promise<number> {
  const { scene, traced } = await startTraced(share);
  let begun = 0;
  const adder = async (): Promise<void> => {
    while (share.goOn(begun++, fullAdds)) await scene.add(draft);
  };
  await atOnce(writers, adder);
  await scene.stop();
  assert.equal(checkOrder(await traced()), scene.ledger.size, 'the trace does not have all 201s');
  return scene.ledger.size;
}

/**
 * Makes the sync of the `when`th write fail. From then on adds get no 201, reads work, and nothing
 * is written or synced.
 */
async function traceFailingSync(share: Share, errno: string, when: number): Promise<void> {
  const { scene, traced } = await startTraced(share, { failingSync: [when, errno] });
  await addUntilRefused(scene.clients);
  await checkBroken(scene.clients, 'sync');
  await scene.end();
  const trace = await traced();
  assert.ok(failedSync(trace) !== undefined, 'no sync failed');
  checkOrder(trace);
}

/**
 * Makes the `when`th write of a thread fail. The batch must be cut off. Then the storage is broken;
 * but after a full disk, the next add is tried.
 */
async function traceFailingWrite(share: Share, errno: string, when: number): Promise<void> {
  const failingWrite = `inject=write:error=${errno}:when=${when}`;
  const { scene, traced } = await startTraced(share, { failingWrite });
  const ids = await addUntilRefused(scene.clients);
  if (errno === 'EIO') await checkBroken(scene.clients, 'write');
  else ids.push(await checkRecovered(scene.clients));
  await scene.end();
  const touches = (await traced()).onFile.filter(({ name }) => name !== 'openat');
  const names = touches.map((call) => (hasFailed(call) ? `failed ${call.name}` : call.name));
  const order = names.slice(names.indexOf('failed write')).join(', ');
  const expected =
    errno === 'EIO' ? /^failed write, ftruncate$/ : /^(failed write, ftruncate, )+write$/;
  assert.match(order, expected, `the calls from a write that fails with ${errno} are: ${order}`);
  const written = touches.filter(isWhole).flatMap(({ args }) => idsIn(args));
  for (const id of ids) assert.ok(written.includes(id), 'a pet has a 201 but was never written');
}

/** Adds pets until an insert is refused, and returns the ids of the pets. */
async function addUntilRefused(clients: Clients): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const { status, body } = await clients.add(draft);
    if (status === 503) return ids;
    assert.equal(status, 201);
    ids.push(idOf(body));
    assert.ok(ids.length < 500, 'no insert was refused');
  }
}

async function checkBroken(clients: Clients, failed: string): Promise<void> {
  for (let again = 0; again < 5; again++) {
    await clients.get('/v1/pets');
    const refusals = [await clients.readiness(), await clients.add(draft)];
    const statuses = refusals.map(({ status }) => status);
    assert.deepEqual(statuses, [503, 503], `after a failed ${failed}`);
  }
}

/**
 * Checks that reads work, and that adds work again once each thread has failed at most once.
 * Returns the id of the first new pet.
 */
async function checkRecovered(clients: Clients): Promise<string> {
  for (let tried = 0; ; tried++) {
    await clients.get('/v1/pets');
    const { status, body } = await clients.add(draft);
    if (status === 201) return idOf(body);
    assert.ok(
      status === 503 && tried < threads,
      `the response to an add after a full disk is ${status}`,
    );
  }
}

/** A system call. `began` and `ended` are line numbers, which order the calls of all threads. */
interface SystemCall {
  readonly name: string;
  /** The arguments in the notation of strace, with the path or socket of each descriptor. */
  readonly args: string;
  readonly began: number;
  ended: number;
  /** The text after the `=`; empty if the call has not returned. */
  result: string;
}

/** The system calls of a server. */
interface Trace {
  readonly path: string;
  readonly calls: readonly SystemCall[];
  /** The calls on the data file. */
  readonly onFile: readonly SystemCall[];
}

interface Failures {
  /** The number of the write whose sync must fail, and the errno. */
  readonly failingSync?: readonly [when: number, errno: string];
  /** An argument for strace, which then traces only the data file. */
  readonly failingWrite?: string;
}

/** Starts a server under strace. `traced` waits for the end of the trace and returns it. */
async function startTraced(
  share: Share,
  { failingSync, failingWrite }: Failures = {},
): Promise<{ readonly scene: Scene; readonly traced: () => Promise<Trace> }> {
  const home = folder(share);
  const path = join(home, 'new', 'pets.jsonl');
  const file = join(home, 'trace');
  // -D makes the server a child of this process, so that it gets the signals.
  const under = ['strace', '-f', '-D', '-y', '-s', '1000000', '-o', file];
  under.push('-e', `trace=${tracedCalls}`);
  if (failingWrite !== undefined) under.push('-e', failingWrite, '-P', path);
  const failing = failingSync && {
    NODE_OPTIONS: `--import=${failingSyncModule}`,
    FAILING_SYNC: JSON.stringify([path, ...failingSync]),
  };
  const env = { PETSTORE_API_KEYS: key, ...failing };
  const scene = await Scene.start(share, { path }, { under, env });
  const traced = async (): Promise<Trace> => {
    // strace may still write after the server has ended. It pads short process ids with spaces.
    const end = new RegExp(`^${scene.server.pid} +\\+\\+\\+ (exited|killed)`, 'm');
    const text = await until('the end of the trace', () => {
      const written = readFileSync(file, 'utf8');
      return end.test(written) && written;
    });
    const all = readTrace(text);
    return { path, calls: all, onFile: all.filter(({ args }) => descriptorOf(args) === path) };
  };
  return { scene, traced };
}

/**
 * Matches a line of a trace made with `-f -y`: a whole call, the beginning of a call, or the end of
 * a call that began on an earlier line.
 */
const traceLine =
  /^([0-9]+) +(?:([a-z0-9_]+)\(|<\.\.\. [a-z0-9_]+ resumed>)(.*)(?: <unfinished \.\.\.>|\) += (.*))$/;

function readTrace(text: string): readonly SystemCall[] {
  const all: SystemCall[] = [];
  const inFlight = new Map<string, SystemCall>();
  for (const [index, line] of text.split('\n').entries()) {
    const [, thread = '', name, args = '', result] = traceLine.exec(line) ?? [];
    if (name !== undefined) {
      const call = { name, args, began: index, ended: Infinity, result: '' };
      all.push(call);
      inFlight.set(thread, call);
    }
    const call = inFlight.get(thread);
    if (call === undefined || result === undefined) continue;
    call.ended = index;
    call.result = result;
    inFlight.delete(thread);
  }
  return all;
}

function hasFailed({ result }: SystemCall): boolean {
  return result.startsWith('-1');
}

/** Returns the call by which `failing-sync.js` marks the failed sync. */
function failedSync({ calls }: Trace): SystemCall | undefined {
  return calls.find(({ name, args }) => name === 'openat' && args.includes('.sync-failed"'));
}

/** Checks the order of the calls, and returns the number of 201s. */
function checkOrder(trace: Trace): number {
  const { path, calls, onFile } = trace;
  const failed = failedSync(trace);
  const later = onFile.filter(
    ({ began, name }) => began > (failed?.began ?? Infinity) && name !== 'ftruncate',
  );
  assert.deepEqual(later, [], 'the file is used after a failed sync');

  const opened = calls.filter(
    (call) => call.name === 'openat' && call.args.includes(`"${path}"`) && !hasFailed(call),
  );
  for (const { args } of opened)
    assert.match(
      args,
      /O_DSYNC/,
      'the file is opened without O_DSYNC, so that a write is not synced',
    );

  // The folders of the file and of its new folder must be synced before the first 201.
  const replies = calls.filter(({ args }) => args.includes('HTTP/1.1 201'));
  const made = opened.find(({ args }) => args.includes('O_CREAT'));
  assert.ok(made !== undefined, 'the file is never created');
  for (const [above, from] of [
    [dirname(path), made.ended],
    [dirname(dirname(path)), 0],
  ] as const) {
    const isSynced = calls.some(
      ({ name, args, result, began, ended }) =>
        name === 'fsync' &&
        descriptorOf(args) === above &&
        result === '0' &&
        began > from &&
        ended < (replies[0]?.began ?? Infinity),
    );
    assert.ok(isSynced, `${above} is not synced before the first 201`);
  }

  // The last write is the one whose sync failed.
  const whole = onFile.filter(isWhole);
  const synced = failed === undefined ? whole : whole.slice(0, -1);
  const written = new Map(synced.flatMap((call) => idsIn(call.args).map((id) => [id, call])));
  let seen = 0;
  for (const { args, began } of replies) {
    const ids = idsIn(args);
    assert.equal(
      ids.length,
      args.split('HTTP/1.1 201').length - 1,
      'a 201 is sent without its body',
    );
    for (const id of ids) {
      seen++;
      const endedAt = written.get(id)?.ended ?? Infinity;
      assert.ok(endedAt < began, `the 201 of pet ${id} is sent before its bytes are synced`);
    }
  }
  return seen;
}

/** Returns the path of the descriptor in the first argument, which `-y` prints after it. */
function descriptorOf(args: string): string | undefined {
  return /^[0-9]+<([^>]*)>/.exec(args)?.[1];
}

/** True if a call wrote all of its bytes. */
function isWhole({ name, args, result }: SystemCall): boolean {
  return /write/.test(name) && result !== '' && args.endsWith(`, ${result}`);
}

function idsIn(args: string): readonly string[] {
  return [...args.matchAll(/\{\\"id\\":([0-9]+),/g)].map(([, id = '']) => id);
}
