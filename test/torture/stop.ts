/**
 * R11: SIGTERM in the middle of work loses nothing, cuts nobody off who behaves, and is over in
 * time.
 */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { quantileOf } from './figures.js';
import { Ledger } from './ledger.js';
import { count, hold, inTime, number, type Row, type Share } from './row.js';
import { started } from './server.js';
import {
  askAtTheEnd,
  comeAndAdd,
  keepAdding,
  lastWordMs,
  openBystanders,
  openIdle,
  type Tally,
} from './stop-clients.js';

const fullRounds = 50;
/**
 * A round mostly waits for the grace of half-sent requests, so that several fit beside each other.
 */
const lanes = 10;
const keepers = 8;
const comers = 2;
const endMs = 10_000;

export const stop: Row = {
  id: 'R11',
  title: 'SIGTERM under load, with idle, silent and half-sent connections open',
  fullS: 50,
  run: async (share) => {
    const ends: Ends = { rounds: 0, acknowledged: 0, endsMs: [] };
    const tally: Tally = { refused: 0, letGo: 0, unaccepted: 0, lastWords: 0, starved: 0 };
    let begun = 0;
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        while (share.goOn(begun, fullRounds)) {
          begun++;
          await round(share, ends, tally);
        }
      }),
    );
    const { rounds, acknowledged, endsMs } = ends;
    const { refused, letGo, unaccepted, lastWords, starved } = tally;
    return `${count(rounds, fullRounds, 'rounds')}, ${number(acknowledged)} animals acknowledged: 0 lost; 0 resets of a taken connection (${number(refused)} requests answered 503, ${number(letGo)} connections let go between two requests, ${unaccepted} never taken); ${number(lastWords)} requests sent on idle connections around the signal, each answered${starved === 0 ? '' : ` but ${starved}, while other work held the server up`}; exit 0 in ${seconds(quantileOf(endsMs, 0.5))} s, at most ${seconds(quantileOf(endsMs, 1))} s`;
  },
};

/** What the rounds came to. */
interface Ends {
  rounds: number;
  acknowledged: number;
  readonly endsMs: number[];
}

async function round(share: Share, ends: Ends, tally: Tally): Promise<void> {
  const path = join(share.folder(), 'pets.jsonl');
  const ledger = new Ledger();
  const { server, client } = await started(share, path);
  const bystanders = await openBystanders(client.port);
  const askers = await openIdle(client.port);
  share.onEnd(() => [...bystanders, ...askers].forEach((each) => each.destroy()));
  const working = Promise.all([
    ...Array.from({ length: keepers }, () => keepAdding(share, client.port, ledger, tally)),
    ...Array.from({ length: comers }, () => comeAndAdd(share, client.port, ledger, tally)),
  ]);
  // It fails while we wait for something else, and is asked for below.
  working.catch(() => undefined);
  await Promise.race([working, wait(50 + share.random.below(400))]);
  // The first asks before the signal, which finds its request on the way; the others while idle
  // connections are kept.
  const asking = Promise.all(
    askers.map((asker, index) =>
      askAtTheEnd(
        share,
        asker,
        server.pid,
        index * share.random.below(lastWordMs / askers.length),
        ledger,
        tally,
      ),
    ),
  );
  asking.catch(() => undefined);
  const sentAt = performance.now();
  const { code, signal, stderr } = await inTime(
    server.end('SIGTERM'),
    endMs + 5_000,
    'the end behind SIGTERM',
  );
  const tookMs = performance.now() - sentAt;
  hold(code === 0, `SIGTERM ends it with ${code ?? signal}: ${stderr}`);
  hold(tookMs <= endMs, `SIGTERM takes ${Math.round(tookMs)} ms`);
  server.holdNoError();
  await Promise.all([working, asking]);
  bystanders.forEach((each) => each.destroy());
  client.close();

  const again = await started(share, path);
  await ledger.check(again.client, share.random);
  again.client.close();
  hold((await again.server.end('SIGTERM')).code === 0, 'with nobody there it does not end with 0');
  ends.rounds++;
  ends.acknowledged += ledger.size;
  ends.endsMs.push(tookMs);
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
