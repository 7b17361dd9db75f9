/**
 * R1: `kill -9` at any moment, under load or during a start, loses no acknowledged pet.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Ledger } from './ledger.js';
import { whole } from '../bench/report.js';
import { count, type TortureRow, type Share } from './row.js';
import { ownPath, Scene, TorturedServer } from './scene.js';

const fullCycles = 500;
const writers = 8;
/** The number of cycles with the same file. It is small, because each cycle reads all pets. */
const cyclesAFile = 25;

export const kill: TortureRow = {
  id: 'R1',
  title: '`kill -9` at random moments under 8 writers and during starts',
  fullS: 160,
  run: async (share) => {
    let [cycles, starts, acknowledged, torn] = [0, 0, 0, 0];
    while (share.goOn(cycles, fullCycles)) {
      const begun = { path: ownPath(share), ledger: new Ledger() };
      for (let cycle = 0; cycle < cyclesAFile && share.goOn(cycles, fullCycles); cycle++) {
        starts += await killStarts(share, begun.path);
        const scene = await Scene.start(share, begun);
        const writing = scene.write(writers);
        await Promise.race([writing, wait(share.random.below(150))]);
        await scene.server.end('SIGKILL');
        assert.deepEqual(await writing, []);
        scene.clients.close();
        cycles++;
      }
      await (await Scene.start(share, begun)).stop();
      acknowledged += begun.ledger.size;
      torn += readdirSync(dirname(begun.path)).filter((name) => name.includes('.torn-')).length;
    }
    return `${count(cycles, fullCycles, 'cycles')} and ${whole(starts)} kills during a start, ${whole(acknowledged)} pets acknowledged, ${torn} torn tails: 0 pets lost, 0 altered, 0 ids assigned twice, no start needed help`;
  },
};

/** Starts a server up to twice, and kills it within 150 ms. Returns the number of starts. */
async function killStarts(share: Share, path: string): Promise<number> {
  const starts = Math.max(0, share.random.below(4) - 1);
  for (let start = 0; start < starts; start++) {
    const server = new TorturedServer(share, path);
    await wait(share.random.below(150));
    const { code, stderr } = await server.end('SIGKILL');
    assert.equal(code, null, `a start failed: ${stderr}`);
  }
  return starts;
}
