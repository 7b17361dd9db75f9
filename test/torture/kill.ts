/**
 * R1: `kill -9` at any moment, under many writers and in the middle of a start, loses nothing that
 * was acknowledged.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Ledger, write } from './ledger.js';
import { count, hold, number, type Row, type Share } from './row.js';
import { Server, started } from './server.js';

const fullCycles = 500;
const writers = 8;
/** A ledger is read whole in every cycle, so a new file begins from time to time. */
const cyclesAFile = 25;

export const kill: Row = {
  id: 'R1',
  title: '`kill -9` at random moments under 8 writers and during starts',
  fullS: 160,
  run: async (share) => {
    const totals = { cycles: 0, starts: 0, acknowledged: 0, torn: 0 };
    while (share.goOn(totals.cycles, fullCycles)) {
      const folder = share.folder();
      const path = join(folder, 'pets.jsonl');
      const ledger = new Ledger();
      for (let cycle = 0; cycle < cyclesAFile && share.goOn(totals.cycles, fullCycles); cycle++) {
        totals.starts += await killStarts(share, path);
        await killUnderWriters(share, path, ledger);
        totals.cycles++;
      }
      const { server, client } = await started(share, path);
      await ledger.check(client, share.random);
      client.close();
      hold((await server.end('SIGTERM')).code === 0, 'the last start does not end with 0');
      totals.acknowledged += ledger.size;
      totals.torn += readdirSync(folder).filter((name) => name.includes('.torn-')).length;
    }
    const { cycles, starts, acknowledged, torn } = totals;
    return `${count(cycles, fullCycles, 'cycles')} and ${number(starts)} kills during a start, ${number(acknowledged)} animals acknowledged, ${torn} torn tails: 0 lost, 0 altered, 0 ids twice, each start without help`;
  },
};

async function killUnderWriters(share: Share, path: string, ledger: Ledger): Promise<void> {
  const { server, client } = await started(share, path);
  await ledger.check(client, share.random);
  const writing = Promise.all(
    Array.from({ length: writers }, () => write(client, ledger, share.random)),
  );
  await Promise.race([writing, wait(share.random.below(150))]);
  await server.end('SIGKILL');
  const others = (await writing).flat();
  hold(others.length === 0, () => `an add is answered ${others[0]?.status}: ${others[0]?.body}`);
  client.close();
}

/**
 * Sometimes kills a start or two, from before its first instruction to just behind its first word.
 */
async function killStarts(share: Share, path: string): Promise<number> {
  const starts = Math.max(0, share.random.below(4) - 1);
  for (let start = 0; start < starts; start++) {
    const server = new Server(share, path);
    await wait(share.random.below(150));
    const { code, stderr } = await server.end('SIGKILL');
    hold(code === null, () => `a start failed with ${code}: ${stderr}`);
  }
  return starts;
}
