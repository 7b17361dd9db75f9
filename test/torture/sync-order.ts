/**
 * R3: the order of the system calls themselves: bytes and their sync, then the 201; and nothing
 * more behind a failed sync.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from './client.js';
import { Ledger } from './ledger.js';
import { count, hold, Skip, until, type Row, type Share } from './row.js';
import { apiKey, started } from './server.js';
import { needPrograms, tool } from './tools.js';
import { readTrace, type SystemCall } from './trace.js';

const fullAdds = 2000;
const writers = 8;
/** As many as libuv has for the disk. */
const threads = 4;
const failingSyncModule = fileURLToPath(new URL('failing-sync.js', import.meta.url));
const traced = 'openat,write,writev,pwrite64,pwritev,sendto,sendmsg,fdatasync,fsync,ftruncate';

export const syncOrder: Row = {
  id: 'R3',
  title:
    'order of the system calls under `strace -f`: a write of O_DSYNC, then its 201; folder before the first 201; nothing written behind a failed sync',
  fullS: 5,
  run: async (share) => {
    needPrograms('strace');
    try {
      tool('strace', '-f', '-o', '/dev/null', 'true');
    } catch {
      throw new Skip('this machine lets no process trace another');
    }
    const adds = await traceSound(share);
    let syncs = 0;
    let writes = 0;
    for (const errno of ['EIO', 'ENOSPC', 'EDQUOT']) {
      for (const when of [1, 2 + share.random.below(20)]) {
        syncs += await traceFailingSync(share, errno, when);
        writes += await traceFailingWrite(share, errno, when);
      }
    }
    return `${count(adds, fullAdds, 'adds')}, ${syncs} failed syncs and ${writes} failed writes: 0 violations`;
  },
};

/** Adds by several at once, without a fault; answers how many. */
async function traceSound(share: Share): Promise<number> {
  const trace = new Trace(share);
  const { server, client } = await trace.start();
  const ledger = new Ledger();
  let begun = 0;
  const adder = async (): Promise<void> => {
    while (share.goOn(begun, fullAdds)) {
      const sent = { name: `animal ${++begun}`, categoryId: begun };
      const answer = await client.add(sent);
      hold(answer.status === 201, `an add is answered ${answer.status}`);
      ledger.acknowledge(sent, answer);
    }
  };
  await Promise.all(Array.from({ length: writers }, adder));
  client.close();
  hold((await server.end('SIGTERM')).code === 0, 'the end is not 0');
  hold((await trace.check()) === ledger.size, 'the trace has not every 201');
  return ledger.size;
}

/**
 * Lets the sync of the `when`th write fail: no 201 from then on, readers served, nothing synced or
 * written again.
 */
async function traceFailingSync(share: Share, errno: string, when: number): Promise<number> {
  const trace = new Trace(share);
  const { server, client } = await trace.start({ failingSync: [when, errno] });
  await addUntilRefused(client);
  for (let again = 0; again < 5; again++) await holdBroken(client, 'sync');
  client.close();
  await server.end('SIGTERM');
  await trace.check();
  hold(trace.failedSyncs === 1, 'no sync failed');
  return trace.failedSyncs;
}

/**
 * Lets the `when`th write of some thread fail: cut off and broken too, but a full disk that took
 * nothing is undone and tried again.
 */
async function traceFailingWrite(share: Share, errno: string, when: number): Promise<number> {
  const trace = new Trace(share);
  const { server, client } = await trace.start({
    failingWrite: `inject=write:error=${errno}:when=${when}`,
  });
  const ids = await addUntilRefused(client);
  if (errno === 'EIO') for (let again = 0; again < 5; again++) await holdBroken(client, 'write');
  else ids.push(await holdRecovered(client));
  client.close();
  await server.end('SIGTERM');
  const calls = (await trace.onFile()).filter(({ name }) => name !== 'openat');
  const names = calls.map(({ name, result }) =>
    result.startsWith('-1') ? `failed ${name}` : name,
  );
  hold(names.includes('failed write'), 'no write failed');
  const order = names.slice(names.indexOf('failed write')).join(', ');
  const expected =
    errno === 'EIO' ? /^failed write, ftruncate$/ : /^(failed write, ftruncate, )+write$/;
  hold(expected.test(order), `a write that fails by ${errno} is followed so: ${order}`);
  const written = new Set(calls.filter(isWhole).flatMap(({ args }) => idsIn(args)));
  hold(
    ids.every((id) => written.has(id)),
    'a 201 of what was never written',
  );
  return 1;
}

/** Adds until one is refused; answers the ids of those before. */
async function addUntilRefused(client: Client): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const answer = await client.add({ name: 'animal', categoryId: 1 });
    if (answer.status !== 201) {
      hold(answer.status === 503, `behind a failure an add is answered ${answer.status}`);
      return ids;
    }
    ids.push(String(JSON.parse(answer.body).id));
    hold(ids.length < 500, 'nothing ever fails');
  }
}

async function holdBroken(client: Client, failed: string): Promise<void> {
  hold(
    (await client.get('/v1/pets')).status === 200,
    `behind a failed ${failed} readers are not served`,
  );
  hold(
    (await client.get('/readyz')).status === 503,
    `behind a failed ${failed} it says that it is ready`,
  );
  const { status } = await client.add({ name: 'animal', categoryId: 1 });
  hold(status === 503, `behind a failed ${failed} an add is answered ${status}`);
}

/**
 * Readers are served, and adding goes on, at the latest once each of the threads has failed;
 * answers the id.
 */
async function holdRecovered(client: Client): Promise<string> {
  for (let tried = 0; ; tried++) {
    hold((await client.get('/v1/pets')).status === 200, 'on a full disk readers are not served');
    const answer = await client.add({ name: 'animal', categoryId: 1 });
    if (answer.status === 201) return String(JSON.parse(answer.body).id);
    hold(
      answer.status === 503 && tried < threads,
      `behind a full disk an add is answered ${answer.status}`,
    );
  }
}

/** A server under strace, and the claims about its calls. */
class Trace {
  readonly #share: Share;
  readonly #path: string;
  readonly #file: string;
  #pid = 0;
  failedSyncs = 0;

  constructor(share: Share) {
    this.#share = share;
    const folder = share.folder();
    this.#path = join(folder, 'new', 'pets.jsonl');
    this.#file = join(folder, 'trace');
  }

  /**
   * `failingSync` says which write's sync fails and how; `failingWrite` is for strace, which then
   * tells of this file alone.
   */
  async start({
    failingSync,
    failingWrite,
  }: {
    failingSync?: readonly [number, string];
    failingWrite?: string;
  } = {}): ReturnType<typeof started> {
    const more = failingWrite === undefined ? [] : ['-e', failingWrite, '-P', this.#path];
    // -D: the server is our own child, so that it hears our signals.
    const under = [
      'strace',
      '-f',
      '-D',
      '-y',
      '-s',
      '1000000',
      '-e',
      `trace=${traced}`,
      '-o',
      this.#file,
      ...more,
    ];
    const failing = failingSync && {
      NODE_OPTIONS: `--import=${failingSyncModule}`,
      FAILING_SYNC: JSON.stringify([this.#path, ...failingSync]),
    };
    const running = await started(this.#share, this.#path, {
      under,
      env: { PETSTORE_API_KEYS: apiKey, ...failing },
    });
    this.#pid = running.server.pid;
    return running;
  }

  /** The calls on the data file, once the server has ended. */
  async onFile(): Promise<readonly SystemCall[]> {
    return (await this.#calls()).filter(({ args }) => descriptorOf(args) === this.#path);
  }

  /** Holds the calls against the claims; answers how many 201s there are. */
  async check(): Promise<number> {
    const calls = await this.#calls();
    const onFile = calls.filter(({ args }) => descriptorOf(args) === this.#path);
    const failed = calls.find(
      ({ name, args }) => name === 'openat' && args.includes('.sync-failed"'),
    );
    if (failed !== undefined) {
      this.failedSyncs++;
      const touched = onFile.find(
        ({ began, name }) => began > failed.began && name !== 'ftruncate',
      );
      hold(touched === undefined, `behind a failed sync there is a ${touched?.name}`);
    }

    const opened = calls.filter(
      ({ name, args, result }) =>
        name === 'openat' && args.includes(`"${this.#path}"`) && !result.startsWith('-1'),
    );
    hold(
      opened.length > 0 && opened.every(({ args }) => args.includes('O_DSYNC')),
      'the file is not opened so that a write is its fdatasync too',
    );
    const written = new Map<string, SystemCall>();
    // The last one is the one whose sync failed.
    const synced = onFile.filter(isWhole).slice(0, failed === undefined ? undefined : -1);
    for (const call of synced) for (const id of idsIn(call.args)) written.set(id, call);
    const replies = calls.filter(({ args }) => args.includes('HTTP/1.1 201'));
    this.#checkFolder(calls, replies[0]?.began ?? Infinity);
    let seen = 0;
    for (const reply of replies) {
      const ids = idsIn(reply.args);
      hold(
        ids.length === reply.args.split('HTTP/1.1 201').length - 1,
        'a 201 whose body is not in the same write',
      );
      for (const id of ids) {
        seen++;
        const write = written.get(id);
        hold(
          write !== undefined && write.ended < reply.began,
          `the 201 of id ${id} leaves before its bytes are written and synced`,
        );
      }
    }
    return seen;
  }

  async #calls(): Promise<readonly SystemCall[]> {
    // strace writes on for a moment after its child is gone; short process ids it fills up with
    // spaces.
    const end = new RegExp(`^${this.#pid} +\\+\\+\\+ (exited|killed)`, 'm');
    await until('the end of the trace', 10_000, () => end.test(readFileSync(this.#file, 'utf8')));
    return readTrace(readFileSync(this.#file, 'utf8'));
  }

  /** The new file's name and its new folder's name are on the disk before the first 201. */
  #checkFolder(calls: readonly SystemCall[], firstReply: number): void {
    const made = calls.find(
      ({ name, args, result }) =>
        name === 'openat' &&
        args.includes(`"${this.#path}"`) &&
        args.includes('O_CREAT') &&
        !result.startsWith('-1'),
    );
    hold(made !== undefined, 'the file is never made');
    const folder = dirname(this.#path);
    const isSynced = (path: string, from: number, to: number): boolean =>
      calls.some(
        ({ name, args, result, began, ended }) =>
          name === 'fsync' &&
          descriptorOf(args) === path &&
          result === '0' &&
          began > from &&
          ended < to,
      );
    hold(isSynced(folder, made.ended, firstReply), 'the folder is not synced before the first 201');
    hold(
      isSynced(dirname(folder), 0, firstReply),
      'the folder above the new one is not synced before the first 201',
    );
  }
}

/** The path of the first argument, which `-y` prints behind the descriptor. */
function descriptorOf(args: string): string | undefined {
  return /^[0-9]+<([^>]*)>/.exec(args)?.[1];
}

/** Whether a call wrote all of its bytes, as `O_DSYNC` with their sync. */
function isWhole({ name, args, result }: SystemCall): boolean {
  return /write/.test(name) && result !== '' && args.endsWith(`, ${result}`);
}

function idsIn(args: string): readonly string[] {
  return [...args.matchAll(/\{\\"id\\":([0-9]+),/g)].map((match) => match[1] ?? '');
}
