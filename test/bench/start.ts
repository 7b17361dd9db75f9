/** How long a start takes, and how much memory, with a large catalogue (issue 4, item 4). */
import { setTimeout as wait } from 'node:timers/promises';
import { firstWrittenId, writeCatalogue } from './catalogue.js';
import { bare, lineParser, petstore } from './contestants.js';
import { onServerCore } from './cores.js';
import { median } from './figures.js';
import { apiKey } from './operations.js';
import type { Bench, Part } from './part.js';
import { decimal, megabytes } from './words.js';

const million = 1_000_000;

/** How long a started server may rest, so that it gives back what only the start needed. */
const restMs = 3_000;

/** One start of the petstore. */
interface Start {
  readonly seconds: number;
  readonly residentBytes: number;
  readonly peakBytes: number;
}

/**
 * Starts with a million animals, in turn with a program that only parses the file's lines; then
 * with five million.
 */
export const start: Part = {
  name: 'start',
  title: 'Start with a large catalogue',
  measure: async (bench) => {
    const folder = bench.session.folder();
    const [path, largePath] = [`${folder}/pets.jsonl`, `${folder}/large.jsonl`];
    const fileBytes = writeCatalogue(path, million);
    const bareBytes = await bareMemory(bench);
    const parsed: number[] = [];
    const starts: Start[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      bench.say(`start ${round + 1} of ${bench.rounds} with 1,000,000 animals`);
      parsed.push(await parseSeconds(bench, path));
      starts.push(await startOf(bench, path, million));
    }
    bench.say('start with 5,000,000 animals');
    const largeBytes = writeCatalogue(largePath, 5 * million);
    const large = await startOf(bench, largePath, 5 * million);

    const typical: Start = {
      seconds: median(starts.map(({ seconds }) => seconds)),
      residentBytes: median(starts.map(({ residentBytes }) => residentBytes)),
      peakBytes: median(starts.map(({ peakBytes }) => peakBytes)),
    };
    const row = (
      name: string,
      size: number,
      { seconds, residentBytes, peakBytes }: Start,
      ratio: string,
    ): readonly string[] => {
      const timesFile = decimal((residentBytes - bareBytes) / size);
      return [
        name,
        megabytes(size),
        decimal(seconds),
        ratio,
        megabytes(residentBytes),
        timesFile,
        megabytes(peakBytes),
      ];
    };
    const parseMedian = median(parsed);
    const timesParsing = median(
      starts.map(({ seconds }, index) => seconds / (parsed[index] ?? NaN)),
    );
    const note =
      `From the process's start until it listens. JSON.parse of each line, in a program that does nothing else: ${decimal(parseMedian)} s. ` +
      `A bare process: ${megabytes(bareBytes)}. Memory ${restMs / 1000} s after the start; Node's default heap.`;
    const head = [
      'animals',
      'file',
      'start s',
      'by JSON.parse',
      'resident',
      '(resident − bare) by file',
      'peak',
    ];
    const rows = [
      row('1,000,000', fileBytes, typical, decimal(timesParsing)),
      row('5,000,000', largeBytes, large, ''),
    ];
    return { tables: [{ title: 'Start', note, head, rows }] };
  },
};

async function bareMemory({ session: outer }: Bench): Promise<number> {
  const session = outer.within();
  const { process } = await session.start(bare);
  await wait(restMs);
  const bytes = process.residentBytes;
  await session.end();
  return bytes;
}

async function parseSeconds({ session }: Bench, path: string): Promise<number> {
  const { readyMs } = await session.run(onServerCore(lineParser(path))).line('readyMs');
  return Number(readyMs) / 1000;
}

async function startOf({ session: outer }: Bench, path: string, count: number): Promise<Start> {
  const session = outer.within();
  const { url, readyMs, process } = await session.start(petstore(`file:${path}`));
  await wait(restMs);
  const { residentBytes, peakBytes } = process;
  for (const id of [firstWrittenId, firstWrittenId + count - 1]) {
    const { status } = await fetch(`${url}/v1/pets/${id}`, {
      headers: { Authorization: `Bearer ${apiKey}` },
    });
    if (status !== 200)
      throw new Error(`behind a start with ${count} animals, ${id} was answered ${status}`);
  }
  await session.end();
  return { seconds: readyMs / 1000, residentBytes, peakBytes };
}
