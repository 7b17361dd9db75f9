/** How long a start takes: to the first answer, and with a large catalogue. */
import { setTimeout as wait } from 'node:timers/promises';
import { firstWrittenId, writeCatalogue } from './catalogue.js';
import { again, bare, lineParser, peers, petstore, type Contestant } from './contestants.js';
import { ask, WrongAnswer } from './answers.js';
import { onServerCore } from './cores.js';
import { median } from './figures.js';
import { get } from './operations.js';
import type { Bench, Part } from './part.js';
import { decimal, megabytes, none, whole, type Table } from './report.js';
import type { Server } from './session.js';

export const start: Part = {
  name: 'start',
  measure: async (bench) => [await firstAnswers(bench), await largeCatalogues(bench)],
};

/** From a process's start to its first 200, of all in turn, again and again. */
async function firstAnswers(bench: Bench): Promise<Table> {
  const starts = bench.isShort ? 1 : 20;
  const file = petstore(`file:${bench.session.folder()}/pets.jsonl`, 'petstore, file');
  const some = [bare, petstore('memory:', 'petstore, memory'), file, ...peers];
  const times = [...some, again(some)].map((contestant) => ({
    contestant,
    ms: new Array<number>(),
  }));
  for (let round = 0; round < starts; round++) {
    bench.say(`first answers, ${round + 1} of ${starts}`);
    for (const { contestant, ms } of times) {
      const startedAt = performance.now();
      await startedOnce(bench, contestant, async (server) => {
        await expectAnimals(server, '/v1/pets');
        ms.push(performance.now() - startedAt);
      });
    }
  }
  const reference = times[0]?.ms ?? [];
  return {
    key: 'first-answer',
    title: 'From the start of the process to its first 200',
    note: `${starts} starts each, in turn; the ratio is the median of all rounds.`,
    head: ['', 'median ms', 'least ms', 'by bare'],
    rows: times.map(({ contestant, ms }) => [
      contestant.name,
      decimal(median(ms), 0),
      decimal(Math.min(...ms), 0),
      decimal(median(ms.map((own, round) => own / (reference[round] ?? NaN)))),
    ]),
  };
}

/** What a start took. */
interface Start {
  readonly seconds: number;
  readonly residentBytes?: number;
  readonly peakBytes?: number;
}

/** In turn with a program that only parses the file's lines; the largest once. */
async function largeCatalogues(bench: Bench): Promise<Table> {
  const folder = bench.session.folder();
  const [count, largeCount] = bench.isShort ? [1_000, 5_000] : [1_000_000, 5_000_000];
  const [path, largePath] = [`${folder}/pets.jsonl`, `${folder}/large.jsonl`];
  const size = writeCatalogue(path, count);
  const parses: Start[] = [];
  const starts: Start[] = [];
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`start ${round + 1} of ${bench.rounds} with ${whole(count)} animals`);
    const { readyMs } = await bench.session.run(onServerCore(lineParser(path))).line('readyMs');
    parses.push({ seconds: Number(readyMs) / 1000 });
    starts.push(await startOf(bench, path, count));
  }
  bench.say(`start with ${whole(largeCount)} animals`);
  const largeSize = writeCatalogue(largePath, largeCount);
  const large = await startOf(bench, largePath, largeCount);

  const row = (what: string, bytes: number | undefined, some: readonly Start[], ratio = none) => {
    const of = (value: (one: Start) => number | undefined): number =>
      median(some.map((one) => value(one) ?? NaN));
    const shown = (value: number, show: (value: number) => string): string =>
      Number.isNaN(value) ? none : show(value);
    return [
      what,
      bytes === undefined ? none : megabytes(bytes),
      shown(
        of(({ seconds }) => seconds),
        decimal,
      ),
      ratio,
      shown(
        of(({ residentBytes }) => residentBytes),
        megabytes,
      ),
      shown(
        of(({ peakBytes }) => peakBytes),
        megabytes,
      ),
    ];
  };
  const byParsing = starts.map(({ seconds }, round) => seconds / (parses[round]?.seconds ?? NaN));
  return {
    key: 'start',
    title: 'Start with a large catalogue',
    note: `From the process's start until it listens; memory ${restMs / 1000} s later, with Node's default heap. The largest is measured once.`,
    head: ['', 'file', 'seconds', 'by JSON.parse', 'resident', 'peak'],
    rows: [
      row('bare node:http', undefined, [await startOf(bench)]),
      row(`JSON.parse of ${whole(count)} lines alone`, size, parses, decimal(1)),
      row(`${whole(count)} animals`, size, starts, decimal(median(byParsing))),
      row(`${whole(largeCount)} animals`, largeSize, [large]),
    ],
  };
}

/** How long a started server may rest, so that it gives back what only the start needed. */
const restMs = 3_000;

/** Starts the petstore with a file, which must be all there; bare without one. */
async function startOf(bench: Bench, path?: string, count = 0): Promise<Start> {
  const contestant = path === undefined ? bare : petstore(`file:${path}`);
  return startedOnce(bench, contestant, async (server) => {
    const { readyMs, process } = server;
    await wait(restMs);
    const { residentBytes, peakBytes } = process;
    for (const id of [firstWrittenId, firstWrittenId + count - 1])
      await expectAnimals(server, `/v1/pets/${id}`);
    return { seconds: readyMs / 1000, residentBytes, peakBytes };
  });
}

/** Starts a contestant, looks at it, and ends it. */
async function startedOnce<Seen>(
  bench: Bench,
  contestant: Contestant,
  look: (server: Server) => Promise<Seen>,
): Promise<Seen> {
  const session = bench.session.within();
  const seen = await look(await session.start(contestant));
  await session.end();
  return seen;
}

async function expectAnimals(server: Pick<Server, 'name' | 'url'>, path: string): Promise<void> {
  const { status } = await ask(server, path, get(path));
  if (status !== 200)
    throw new WrongAnswer(`${server.name} answers ${path} with ${status}, not 200`);
}
