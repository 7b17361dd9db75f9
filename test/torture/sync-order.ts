/** R3: the order of the system calls themselves: bytes, then their sync, then the 201; and no sync behind a failed one. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Ledger } from './ledger.js';
import { count, hold, Skip, until, type Row, type Share } from './row.js';
import { started } from './server.js';
import { needPrograms, tool } from './tools.js';
import { readTrace, type SystemCall } from './trace.js';

const fullAdds = 2000;
const writers = 8;
const traced = 'openat,write,writev,pwrite64,pwritev,sendto,sendmsg,fdatasync,fsync,ftruncate';

export const syncOrder: Row = {
  id: 'R3',
  title: 'order of the system calls under `strace -f`: bytes, fdatasync, 201; folder before the first 201; no fdatasync after a failed one',
  fullS: 5,
  run: async (share) => {
    needPrograms('strace');
    try {
      tool('strace', '-f', '-o', '/dev/null', 'true');
    } catch {
      throw new Skip('this machine lets no process trace another');
    }
    const adds = await traceSound(share);
    let failures = 0;
    for (const errno of ['EIO', 'ENOSPC', 'EDQUOT']) {
      for (const when of [1, 2 + share.random.below(20)]) failures += await traceFailing(share, errno, when);
    }
    return `${count(adds, fullAdds, 'adds')} and ${failures} failed fdatasyncs: 0 violations`;
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

/** Lets the `when`th fdatasync of some thread fail: no 201 from then on, readers served, nothing synced or written again. */
async function traceFailing(share: Share, errno: string, when: number): Promise<number> {
  const trace = new Trace(share);
  // The first of all would be the one that ends opening.
  const { server, client } = await trace.start('-e', `inject=fdatasync:error=${errno}:when=${when + 1}`);
  let answer = await client.add({ name: 'animal', categoryId: 1 });
  for (let added = 0; answer.status === 201 && added < 500; added++) answer = await client.add({ name: 'animal', categoryId: 1 });
  for (let again = 0; again < 5; again++) {
    hold(answer.status === 503, `behind a failed fdatasync an add is answered ${answer.status}`);
    hold((await client.get('/v1/pets')).status === 200, 'behind a failed fdatasync readers are not served');
    hold((await client.get('/readyz')).status === 503, 'behind a failed fdatasync it says that it is ready');
    answer = await client.add({ name: 'animal', categoryId: 1 });
  }
  client.close();
  await server.end('SIGTERM');
  await trace.check();
  return trace.failures;
}

/** A server under strace, and the claims about its calls. */
class Trace {
  readonly #share: Share;
  readonly #path: string;
  readonly #file: string;
  #pid = 0;
  failures = 0;

  constructor(share: Share) {
    this.#share = share;
    const folder = share.folder();
    this.#path = join(folder, 'new', 'pets.jsonl');
    this.#file = join(folder, 'trace');
  }

  async start(...more: readonly string[]): ReturnType<typeof started> {
    // -D: the server is our own child, so that it hears our signals.
    const under = ['strace', '-f', '-D', '-y', '-s', '1000000', '-e', `trace=${traced}`, '-o', this.#file, ...more];
    const running = await started(this.#share, this.#path, { under });
    this.#pid = running.server.pid;
    return running;
  }

  /** Holds the calls against the claims; answers how many 201s there are. */
  async check(): Promise<number> {
    // strace writes on for a moment after its child is gone; short process ids it fills up with spaces.
    const end = new RegExp(`^${this.#pid} +\\+\\+\\+ (exited|killed)`, 'm');
    await until('the end of the trace', 10_000, () => end.test(readFileSync(this.#file, 'utf8')));
    const calls = readTrace(readFileSync(this.#file, 'utf8'));
    const onFile = calls.filter(({ args }) => descriptorOf(args) === this.#path);
    const syncs = onFile.filter(({ name }) => name === 'fdatasync' || name === 'fsync');
    const failed = syncs.find(({ result }) => result.startsWith('-1'));
    if (failed !== undefined) {
      this.failures++;
      const touched = onFile.find(({ began, name }) => began > failed.began && name !== 'ftruncate');
      hold(touched === undefined, `behind a failed fdatasync there is a ${touched?.name}`);
    }

    const written = new Map<string, SystemCall>();
    for (const call of onFile.filter(({ name }) => /write/.test(name))) for (const id of idsIn(call.args)) written.set(id, call);
    const replies = calls.filter(({ args }) => args.includes('HTTP/1.1 201'));
    this.#checkFolder(calls, replies[0]?.began ?? Infinity);
    let seen = 0;
    for (const reply of replies) {
      const ids = idsIn(reply.args);
      hold(ids.length === reply.args.split('HTTP/1.1 201').length - 1, 'a 201 whose body is not in the same write');
      for (const id of ids) {
        seen++;
        const write = written.get(id);
        hold(write !== undefined && write.result.length > 0 && !write.result.startsWith('-1'), `the 201 of id ${id} leaves before its bytes are written`);
        const isSynced = syncs.some(({ began, ended, result }) => result === '0' && began > write.ended && ended < reply.began);
        hold(isSynced, `the 201 of id ${id} leaves before a sync that began behind its bytes`);
      }
    }
    return seen;
  }

  /** The new file's name and its new folder's name are on the disk before the first 201. */
  #checkFolder(calls: readonly SystemCall[], firstReply: number): void {
    const made = calls.find(
      ({ name, args, result }) => name === 'openat' && args.includes(`"${this.#path}"`) && args.includes('O_CREAT') && !result.startsWith('-1'),
    );
    hold(made !== undefined, 'the file is never made');
    const folder = dirname(this.#path);
    const isSynced = (path: string, from: number, to: number): boolean =>
      calls.some(({ name, args, result, began, ended }) => name === 'fsync' && descriptorOf(args) === path && result === '0' && began > from && ended < to);
    hold(isSynced(folder, made.ended, firstReply), 'the folder is not synced before the first 201');
    hold(isSynced(dirname(folder), 0, firstReply), 'the folder above the new one is not synced before the first 201');
  }
}

/** The path of the first argument, which `-y` prints behind the descriptor. */
function descriptorOf(args: string): string | undefined {
  return /^[0-9]+<([^>]*)>/.exec(args)?.[1];
}

function idsIn(args: string): readonly string[] {
  return [...args.matchAll(/\{\\"id\\":([0-9]+),/g)].map((match) => match[1] ?? '');
}
