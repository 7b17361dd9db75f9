/**
 * R7: of all who start at the same file one has it at a time, and the next has it at once when that
 * one is gone.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import type { Ended } from '../support/process.js';
import { Ledger } from './ledger.js';
import { count, inTime, type TortureRow } from './row.js';
import { ownPath, Scene, TorturedServer } from './scene.js';

const fullRounds = 50;
const starters = 8;
/** With the start of a process on a busy machine; a lock that only time frees would take longer. */
const takeOverMs = 5_000;
/** Enough for all starters at once to meet the lock on two cores. */
const raceMs = 800;

export const lock: TortureRow = {
  id: 'R7',
  title: `lock: ${starters} starters racing, behind a \`kill -9\`, an owner stopped by SIGSTOP`,
  fullS: 50,
  run: async (share) => {
    const path = ownPath(share);
    const ledger = new Ledger();
    const starter = (): TorturedServer => new TorturedServer(share, path);

    /** The one of some starters that listens, if any, once the others were refused by name. */
    const ownerOf = async (servers: readonly TorturedServer[]): Promise<Scene | undefined> => {
      const clients = await Promise.all(servers.map((server) => server.clients()));
      const owners: Scene[] = [];
      for (const [index, server] of servers.entries()) {
        const own = clients[index];
        if (own !== undefined) owners.push(new Scene(share, path, ledger, server, own));
        else await refused(server);
      }
      assert.ok(owners.length <= 1, `${owners.length} have the file at once`);
      return owners[0];
    };

    /**
     * Lets all start at once, at a random moment of which the owner until then is killed: before
     * nobody else may listen, and exactly one may then, for whoever was refused before that kill
     * has ended.
     */
    const race = async (before: Scene | undefined): Promise<Scene | undefined> => {
      const servers = Array.from({ length: starters }, starter);
      await wait(share.random.below(raceMs));
      if (before !== undefined) {
        // Behind another turn of the event loop all that they have said is read, and their owner
        // is still alive.
        await new Promise(setImmediate);
        const isTaken = servers.some(({ hasListened }) => hasListened);
        assert.ok(!isTaken, 'a starter has the file while its owner lives');
        await before.server.end('SIGKILL');
      }
      // All may have come before the owner was gone, and were refused as they should be.
      return (await ownerOf(servers)) ?? (before && (await ownerOf([starter()])));
    };

    /** An owner takes animals, and those of the owners before it are there. */
    const prove = async (owner: Scene | undefined): Promise<Scene> => {
      assert.ok(owner !== undefined, 'nobody has the file');
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
      // What starts at once may meet the owner as it dies; what starts behind its end may not.
      let since = performance.now();
      server.signal('SIGKILL');
      let next = await ownerOf([starter()]);
      if (next === undefined) {
        await server.ended;
        since = performance.now();
        next = await ownerOf([starter()]);
      }
      const ms = performance.now() - since;
      assert.ok(ms <= takeOverMs, `the take-over needs ${Math.round(ms)} ms`);
      slowestMs = Math.max(slowestMs, ms);
      owner = await prove(next);
    }
    return `${count(rounds, fullRounds, 'rounds')}: 0 overlaps, slowest take-over ${Math.round(slowestMs)} ms with the start of the process`;
  },
};

async function refused(server: TorturedServer): Promise<Ended> {
  const ended = await inTime(server.ended, 'a refusal');
  assert.equal(ended.code, 3, ended.stderr);
  assert.match(ended.stderr, /^[^\n]* is in use by [^\n]*\n$/);
  return ended;
}
