/** How long a start takes: to the first answer, and with a large catalogue. */
import { setTimeout as wait } from 'node:timers/promises';
import { folder } from '../support/process.js';
import { memoryOf } from '../support/kernel.js';
import { firstWrittenId, writeCatalogue } from './catalogue.js';
import { again, bare, peer, peers, petstore, type Contestant } from './contestants.js';
import { median } from './figures.js';
import { get } from './operations.js';
import type { Bench, Part } from './part.js';
import { decimal, megabytes, none, whole, type Table } from './report.js';
import { answersOf, Measured, startContestant, type Server } from './servers.js';

export const start: Part = {
  name: 'start',
  measure: async (bench) => [await firstAnswers(bench), await largeCatalogues(bench)],
};

/** Starts a contestant, looks at it, and ends it. */
async function startedOnce<Seen>(
  { stretch }: Bench,
  contestant: Contestant,
  look: (server: Server) => Promise<Seen>,
): Promise<Seen> {
  const own = stretch.within();
  const seen = await look(await startContestant(own, contestant));
  await own.end();
  return seen;
}

/** From a process's start to its first 200, of all in turn, again and again. */
async function firstAnswers(bench: Bench): Promise<Table> {
  const starts = bench.isShort ? 1 : 20;
  const file = petstore(`file:${folder(bench.stretch)}/pets.jsonl`, 'petstore, file');
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
        await answersOf(server, 'a list', [get('/v1/pets')], 200);
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

/** How long a started server may rest, so that it gives back what only the start needed. */
const restMs = 3_000;

/** In turn with a program that only parses the file's lines; the largest once. */
async function largeCatalogues(bench: Bench): Promise<Table> {
  const home = folder(bench.stretch);
  const [count, largeCount] = bench.isShort ? [1_000, 5_000] : [1_000_000, 5_000_000];
  const [path, largePath] = [`${home}/pets.jsonl`, `${home}/large.jsonl`];

  /** Starts the petstore with a file, which must be all there; bare without one. */
  const startOf = (path?: string, count = 0): Promise<readonly [number, number, number]> =>
    startedOnce(bench, path === undefined ? bare : petstore(`file:${path}`), async (server) => {
      const { pid } = server.process;
      await wait(restMs);
      const memory = [memoryOf(pid), memoryOf(pid, 'VmHWM')] as const;
      const ends = [firstWrittenId, firstWrittenId + count - 1];
      await answersOf(
        server,
        'an end',
        ends.map((id) => get(`/v1/pets/${id}`)),
        200,
      );
      return [server.readyMs / 1000, ...memory];
    });

  const size = writeCatalogue(path, count);
  const parses: number[] = [];
  const starts: Awaited<ReturnType<typeof startOf>>[] = [];
  const parser = peer('parse-lines', '', path).command;
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`start ${round + 1} of ${bench.rounds} with ${whole(count)} animals`);
    const { readyMs } = await new Measured(bench.stretch, parser).line('readyMs');
    parses.push(Number(readyMs) / 1000);
    starts.push(await startOf(path, count));
  }
  bench.say(`start with ${whole(largeCount)} animals`);
  const largeSize = writeCatalogue(largePath, largeCount);

  const row = (
    what: string,
    bytes: number | undefined,
    some: readonly (readonly [seconds: number, resident?: number, peak?: number])[],
    ratio = none,
  ) => [
    what,
    megabytes(bytes),
    decimal(median(some.map(([seconds]) => seconds))),
    ratio,
    megabytes(median(some.map(([, resident = NaN]) => resident))),
    megabytes(median(some.map(([, , peak = NaN]) => peak))),
  ];
  const byParsing = starts.map(([seconds], round) => seconds / (parses[round] ?? NaN));
  return {
    key: 'start',
    title: 'Start with a large catalogue',
    note: `From the process's start until it listens; memory ${restMs / 1000} s later, with Node's default heap. The largest is measured once.`,
    head: ['', 'file', 'seconds', 'by JSON.parse', 'resident', 'peak'],
    rows: [
      row('bare node:http', undefined, [await startOf()]),
      row(
        `JSON.parse of ${whole(count)} lines alone`,
        size,
        parses.map((seconds) => [seconds]),
        decimal(1),
      ),
      row(`${whole(count)} animals`, size, starts, decimal(median(byParsing))),
      row(`${whole(largeCount)} animals`, largeSize, [await startOf(largePath, largeCount)]),
    ],
  };
}
