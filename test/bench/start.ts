/** Measures the time of a start: to the first response, and with a large catalogue. */
import { setTimeout as wait } from 'node:timers/promises';
import { folder } from '../support/process.js';
import { memoryOf } from '../support/kernel.js';
import { firstWrittenId, writeCatalogue } from './catalogue.js';
import { again, bare, peer, peers, petstore, type Contestant } from './contestants.js';
import { median, type Bench, type Part } from './figures.js';
import { get, operation, reading } from './operations.js';
import { decimal, megabytes, none, whole, type Table } from './report.js';
import { responsesOf, Measured, startContestant } from './servers.js';

export const startPart: Part = [firstResponses, largeCatalogues];

/** Measures the time from the start of a process to its first 200, in interleaved rounds. */
async function firstResponses({ scope, isShort, say }: Bench): Promise<Table> {
  const starts = isShort ? 1 : 20;
  const file = petstore(`file:${folder(scope)}/pets.jsonl`, 'petstore, file');
  const some = [bare, petstore('memory:', 'petstore, memory'), file, ...peers];
  const times = [...some, again(some)].map((contestant) => ({ contestant, ms: Array<number>() }));
  for (let round = 0; round < starts; round++) {
    say(`first responses, ${round + 1} of ${starts}`);
    for (const { contestant, ms } of times) {
      const own = scope.within();
      const startedAt = performance.now();
      const server = await startContestant(own, contestant);
      await responsesOf(server, reading.list20);
      ms.push(performance.now() - startedAt);
      await own.end();
    }
  }
  const reference = times[0]?.ms ?? [];
  return {
    key: 'first-response',
    title: 'From the start of the process to its first 200',
    note: `${starts} starts of each, in turn; the ratio is the median of all rounds.`,
    head: ['', 'median ms', 'least ms', 'ratio to bare'],
    rows: times.map(({ contestant, ms }) => [
      contestant.name,
      decimal(median(ms), 0),
      decimal(Math.min(...ms), 0),
      decimal(median(ms.map((own, round) => own / (reference[round] ?? NaN)))),
    ]),
  };
}

/** The pause after a start, in which the server frees the memory that only the start needed. */
const restMs = 3_000;

/** The figures of a start; memory is in bytes. */
interface Start {
  readonly seconds: number;
  readonly resident?: number;
  readonly peak?: number;
}

/**
 * Measures starts, interleaved with a program that only parses the lines. The largest file is
 * measured once.
 */
async function largeCatalogues({ scope, isShort, rounds, say }: Bench): Promise<Table> {
  const [count, largeCount] = isShort ? [1_000, 5_000] : [1_000_000, 5_000_000];
  const path = `${folder(scope)}/pets.jsonl`;
  const largePath = `${folder(scope)}/pets.jsonl`;

  const startOf = async (contestant: Contestant, count = 1): Promise<Start> => {
    const own = scope.within();
    const server = await startContestant(own, contestant);
    const { pid } = server.process;
    await wait(restMs);
    const memory = { resident: memoryOf(pid), peak: memoryOf(pid, 'VmHWM') };
    const ends = [firstWrittenId, firstWrittenId + count - 1].map((id) => get(`/v1/pets/${id}`));
    await responsesOf(server, operation('the first and the last pet', 200, ...ends));
    await own.end();
    return { seconds: server.readyMs / 1000, ...memory };
  };

  const size = writeCatalogue(path, count);
  const parses: Start[] = [];
  const starts: Start[] = [];
  for (let round = 0; round < rounds; round++) {
    say(`start ${round + 1} of ${rounds} with ${whole(count)} pets`);
    const { readyMs } = await new Measured(scope, peer('parse-lines', '', path).command).line(
      'readyMs',
    );
    parses.push({ seconds: Number(readyMs) / 1000 });
    starts.push(await startOf(petstore(`file:${path}`), count));
  }
  const byParsing = starts.map(({ seconds }, round) => seconds / (parses[round]?.seconds ?? NaN));
  say(`start with ${whole(largeCount)} pets`);
  const largeSize = writeCatalogue(largePath, largeCount);
  const largeStart = await startOf(petstore(`file:${largePath}`), largeCount);

  const row = (what: string, bytes: number | undefined, all: readonly Start[], ratio = none) => {
    const medianOf = (field: keyof Start): number => median(all.map((each) => each[field] ?? NaN));
    const memory = [megabytes(medianOf('resident')), megabytes(medianOf('peak'))];
    return [what, megabytes(bytes), decimal(medianOf('seconds')), ratio, ...memory];
  };
  return {
    key: 'start',
    title: 'Start with a large catalogue',
    note: `The time from the start of the process until it listens, and its memory ${restMs / 1000} s later, with Node's default heap. The largest file is measured once.`,
    head: ['', 'file', 'seconds', 'ratio to JSON.parse', 'resident', 'peak'],
    rows: [
      row('bare node:http', undefined, [await startOf(bare)]),
      row(`JSON.parse of ${whole(count)} lines alone`, size, parses, decimal(1)),
      row(`${whole(count)} pets`, size, starts, decimal(median(byParsing))),
      row(`${whole(largeCount)} pets`, largeSize, [largeStart]),
    ],
  };
}
