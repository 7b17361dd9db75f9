/**
 * R7: of all who start at the same file one has it at a time, and the next has it at once when that
 * one is gone.
 */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Ledger } from './ledger.js';
import { randomDraft } from './random.js';
import { count, hold, inTime, Violation, type Row, type Share } from './row.js';
import { Server } from './server.js';

const fullRounds = 50;
const starters = 8;
/** With the start of a process on a busy machine; a lock that only time frees would take longer. */
const takeOverMs = 5_000;
/** Enough for all starters at once to meet the lock on two cores. */
const raceMs = 800;

export const lock: Row = {
  id: 'R7',
  title: `lock: ${starters} starters racing, behind a \`kill -9\`, an owner stopped by SIGSTOP`,
  fullS: 50,
  run: async (share) => {
    const path = join(share.folder(), 'pets.jsonl');
    const ledger = new Ledger();
    let owner: Owner | undefined;
    let rounds = 0;
    let slowestMs = 0;
    for (; share.goOn(rounds, fullRounds); rounds++) {
      owner = await race(share, path, owner?.server);
      await prove(share, ledger, owner);
      if (rounds % 3 === 0) await stopAndContinue(share, path, owner.server);
      if (rounds % 3 === 1) owner.server.signal('SIGSTOP');
      const { next, ms } = await takeOver(share, path, owner.server);
      slowestMs = Math.max(slowestMs, ms);
      await prove(share, ledger, next);
      owner = next;
    }
    if (owner !== undefined) await ledger.check(owner.client, share.random);
    return `${count(rounds, fullRounds, 'rounds')}: 0 overlaps, slowest take-over ${Math.round(slowestMs)} ms with the start of the process`;
  },
};

interface Owner {
  readonly server: Server;
  readonly client: NonNullable<Awaited<Server['listening']>>;
}

/**
 * Lets all start at once, at a random moment of which the owner until then is killed: before nobody
 * else may listen, and exactly one may then, for whoever was refused before that kill has ended.
 */
async function race(share: Share, path: string, before: Server | undefined): Promise<Owner> {
  const servers = Array.from({ length: starters }, () => new Server(share, path));
  await wait(share.random.below(raceMs));
  if (before !== undefined) {
    // Behind another turn of the event loop all that they have said is read, and their owner is
    // still alive.
    await new Promise(setImmediate);
    hold(
      !servers.some(({ hasListened }) => hasListened),
      'a starter has the file while its owner lives',
    );
    await before.end('SIGKILL');
  }
  let owner = await onlyOwner(servers);
  // All came before the owner was gone, and were refused as they should be.
  if (owner === undefined && before !== undefined)
    owner = await onlyOwner([new Server(share, path)]);
  hold(owner !== undefined, 'nobody has the file');
  return owner;
}

/** The one that listens; the others must be refused by name. */
async function onlyOwner(servers: readonly Server[]): Promise<Owner | undefined> {
  const clients = await inTime(
    Promise.all(servers.map((server) => server.listening)),
    30_000,
    'the starters',
  );
  const owners: Owner[] = [];
  for (const [index, server] of servers.entries()) {
    const client = clients[index];
    if (client !== undefined) owners.push({ server, client });
    else await refused(server);
  }
  hold(owners.length <= 1, `${owners.length} have the file at once`);
  return owners[0];
}

async function refused(server: Server): Promise<void> {
  const { code, stderr } = await inTime(server.ended, 10_000, 'a refusal');
  hold(
    code === 3 && /^[^\n]* is in use by [^\n]*\n$/.test(stderr),
    `a starter ends with ${code}: ${stderr}`,
  );
}

async function stopAndContinue(share: Share, path: string, owner: Server): Promise<void> {
  owner.signal('SIGSTOP');
  const late = new Server(share, path);
  await refused(late);
  const { stderr } = await late.ended;
  hold(
    stderr.includes(`process ${owner.pid}:`),
    `the owner, ${owner.pid}, is not named: ${stderr}`,
  );
  owner.signal('SIGCONT');
}

/**
 * Kills the owner and starts the next at once, which may meet it as it dies; what starts behind its
 * end is never refused.
 */
async function takeOver(
  share: Share,
  path: string,
  owner: Server,
): Promise<{ readonly next: Owner; readonly ms: number }> {
  let since = performance.now();
  owner.signal('SIGKILL');
  let server = new Server(share, path);
  let client = await inTime(server.listening, 10_000, 'the take-over');
  if (client === undefined) {
    await refused(server);
    await owner.ended;
    since = performance.now();
    server = new Server(share, path);
    client = await inTime(server.listening, 10_000, 'the take-over');
  }
  const ms = performance.now() - since;
  if (client === undefined)
    throw new Violation(`behind a \`kill -9\` the next is refused: ${(await server.ended).stderr}`);
  hold(ms <= takeOverMs, `the take-over needs ${Math.round(ms)} ms`);
  return { next: { server, client }, ms };
}

/** An owner takes animals, and those of the owners before it are there. */
async function prove(share: Share, ledger: Ledger, { client }: Owner): Promise<void> {
  const sent = randomDraft(share.random);
  const answer = await client.add(sent);
  hold(answer.status === 201, `the owner answers ${answer.status}`);
  ledger.acknowledge(sent, answer);
  await ledger.check(client, share.random);
}
