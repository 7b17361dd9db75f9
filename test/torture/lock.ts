/**
 * R7: of all processes that start on a file, one has it at a time, and the next gets it as soon as
 * that process ends.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import type { Ended } from '../support/process.js';
import { Ledger } from './ledger.js';
import { count, inTime, type TortureRow } from './row.js';
import { ownPath, Scene, TorturedServer } from './scene.js';

const fullRounds = 50;
const starters = 8;
/** Includes the start of a process on a busy machine. A lock with a timeout would take longer. */
const takeOverMs = 5_000;
/** Long enough for all starters to meet the lock on two cores. */
const raceMs = 800;

export const lock: TortureRow = {
  id: 'R7',
  title: `lock: ${starters} starts at once, after a \`kill -9\` and with an owner stopped by SIGSTOP`,
  fullS: 50,
  run: async (share) => {
    const path = ownPath(share);
    const ledger = new Ledger();
    const starter = (): TorturedServer => new TorturedServer(share, path);

    /** Returns the starter that listens, if any, after the others were refused by name. */
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
     * Starts all at once, and kills the owner at a random moment. Before that none of them may
     * listen, and afterwards exactly one.
     */
    const race = async (before: Scene | undefined): Promise<Scene | undefined> => {
      const servers = Array.from({ length: starters }, starter);
      await wait(share.random.below(raceMs));
      if (before !== undefined) {
        // After another tick, all output was read, and the owner is still alive.
        await new Promise(setImmediate);
        const isTaken = servers.some(({ hasListened }) => hasListened);
        assert.ok(!isTaken, 'a starter has the file while its owner lives');
        await before.server.end('SIGKILL');
      }
      // All starters may have come before the owner ended, and were refused correctly.
      return (await ownerOf(servers)) ?? (before && (await ownerOf([starter()])));
    };

    /** Checks that an owner adds pets and has those of the owners before. */
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
      // A starter that starts at once may meet the owner as it ends. A later one may not.
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
