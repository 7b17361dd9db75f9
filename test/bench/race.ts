/**
 * Owns one race: every operation, at one client, over servers that hold the same animals. Knows not
 * how figures are shown.
 */
import { assertSameAnswers } from './answers.js';
import { fill } from './catalogue.js';
import { bare, bareAgain, petstore, petstoreBefore, type Contestant } from './contestants.js';
import { interleaved, type Figures } from './figures.js';
import type { Goal } from './goals.js';
import type { Client } from './load.js';
import { adding, addingToFile, reading, type Operation } from './operations.js';
import type { Bench } from './part.js';
import type { Server } from './session.js';

/** Who runs what, and at which client. */
export interface Entry {
  readonly client: Client;
  readonly peers: readonly Contestant[];
  readonly reading: readonly Operation[];
  readonly goals: readonly Goal[];
  /** Whether the petstore of another checkout keeps animals in a file too. */
  readonly withBefore?: true;
}

/** What a race gave. */
export interface Race {
  readonly entry: Entry;
  /** Whom bare was measured against. */
  readonly names: readonly string[];
  /** Bare against itself: how far its ratio is from 1 is how far all others may be off. */
  readonly selfCheck: Figures;
  readonly rows: readonly RaceRow[];
}

/** The figures of one operation, by contestant. */
export interface RaceRow {
  readonly operation: Operation;
  readonly figures: ReadonlyMap<string, Figures>;
}

/**
 * All start afresh and prove that they answer alike. Adding comes last, so that all lists are of
 * the same animals.
 */
export async function race(
  { session: outer, load, rounds, say }: Bench,
  entry: Entry,
): Promise<Race> {
  const { client, peers, reading: operations } = entry;
  const session = outer.within();
  const measured = async (servers: readonly Server[], operation: Operation): Promise<RaceRow> => {
    say(`${operation.name}, ${client.name}`);
    const turns = servers.map((server) => ({ server, operation }));
    return { operation, figures: await interleaved(turns, { load, client, rounds }) };
  };

  const inMemory = await session.startAll([bare, petstore('memory:'), ...peers]);
  const before = entry.withBefore && petstoreBefore(`file:${session.folder()}/pets.jsonl`);
  const inFile = await session.startAll([
    bare,
    petstore(`file:${session.folder()}/pets.jsonl`),
    ...(before ? [before] : []),
  ]);
  const filled = [...inMemory, ...inFile].filter(({ isBare }) => !isBare);
  for (const { url } of filled) await fill(url);
  await assertSameAnswers(filled, [...operations, adding]);

  const selfCheck = await measured(await session.startAll([bare, bareAgain]), reading.one);
  const rows: RaceRow[] = [];
  for (const operation of operations) rows.push(await measured(inMemory, operation));
  rows.push(await measured(inMemory, adding), await measured(inFile, addingToFile));
  await session.end();

  const itself = selfCheck.figures.get(bareAgain.name);
  if (itself === undefined) throw new Error('the self-check has no figures');
  return { entry, names: inMemory.slice(1).map(({ name }) => name), selfCheck: itself, rows };
}
