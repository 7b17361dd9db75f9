/**
 * R7: only one process at a time has a file, and the next process gets it as soon as that one ends.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import type { Ended } from '../support/process.js';
import { Ledger } from './ledger.js';
import { count, inTime, type TortureRow } from './row.js';
import { ownPath, Scene, TorturedServer } from './scene.js';

const fullRounds = 50;
const starters = 8;
/** The longest take-over, with the start of a process. A lock with a timeout would take longer. */
const takeOverMs = 5_000;
/** The longest pause before a kill, in which all starters reach the lock on two cores. */
const raceMs = 800;

export const lock: TortureRow = {
  id: 'R7',
  title: `lock: ${starters} processes start at once, after a \`kill -9\` and while the owner is stopped by SIGSTOP`,
  fullS: 50,
  run: async (share) => {
    const path = ownPath(share);
    const ledger = new Ledger();
    const starter = (): TorturedServer => new TorturedServer(share, path);

    /** Returns the server that listens, if any, and checks that the others refuse to start. */
    const ownerOf = async (servers: readonly TorturedServer[]): Promise<Scene | undefined> => {
      const clients = await Promise.all(servers.map((server) => server.clients()));
      const owners: Scene[] = [];
      for (const [index, server] of servers.entries()) {
        const own = clients[index];
        if (own !== undefined) owners.push(new Scene(share, path, ledger, server, own));
        else await refused(server);
      }
      assert.ok(owners.length <= 1, `${owners.length} processes have the file at once`);
      return owners[0];
    };

    /**
     * Starts several servers at once, and kills the owner of the file at a random moment. Before
     * the kill none of them may listen, and afterwards exactly one.
     */
    const race = async (before: Scene | undefined): Promise<Scene | undefined> => {
      const servers = Array.from({ length: starters }, starter);
      await wait(share.random.below(raceMs));
      if (before !== undefined) {
        // All output has been read after another tick. The owner is still alive.
        await new Promise(setImmediate);
        const isTaken = servers.some(({ hasListened }) => hasListened);
        assert.ok(!isTaken, 'a second process has the file while its owner runs');
        await before.server.end('SIGKILL');
      }
      // All may have refused correctly, because they tried before the owner ended.
      return (await ownerOf(servers)) ?? (before && (await ownerOf([starter()])));
    };

    /** Checks that an owner adds pets, and has the pets of the owners before it. */
    const prove = async (owner: Scene | undefined): Promise<Scene> => {
      assert.ok(owner !== undefined, 'no process has the file');
      await owner.add();
      await owner.check();
      return owner;
    };

    let owner: Scene | undefined;
    let rounds = 0;
    let slowestMs = 0;
    for (; share.goOn(rounds, fullRounds); rounds++) {
      const { server } = await prove(await race(owner));
      if (rounds % 3 < 2) server.signal('SIGSTOP');
      if (rounds % 3 === 0) {
        const { stderr } = await refused(starter());
        assert.ok(stderr.includes(`process ${server.pid}:`), `the owner is not named: ${stderr}`);
        server.signal('SIGCONT');
      }
      // A process that starts at once may be refused while the owner ends. A later one may not.
      let since = performance.now();
      server.signal('SIGKILL');
      let next = await ownerOf([starter()]);
      if (next === undefined) {
        await server.ended;
        since = performance.now();
        next = await ownerOf([starter()]);
      }
      const ms = performance.now() - since;
      assert.ok(ms <= takeOverMs, `the take-over took ${Math.round(ms)} ms`);
      slowestMs = Math.max(slowestMs, ms);
      owner = await prove(next);
    }
    return `${count(rounds, fullRounds, 'rounds')}: 0 overlaps; slowest take-over ${Math.round(slowestMs)} ms, including the start of the process`;
  },
};

async function refused(server: TorturedServer): Promise<Ended> {
  const ended = await inTime(server.ended, 'a refusal');
  assert.equal(ended.code, 3, ended.stderr);
  assert.match(ended.stderr, /^[^\n]* is in use by [^\n]*\n$/);
  return ended;
}
