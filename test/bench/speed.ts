/**
 * How fast each operation is: against bare `node:http` and the peers at three kinds of clients, and
 * against another checkout.
 */
import { proveSameAnswers } from './answers.js';
import { fill } from './catalogue.js';
import {
  again,
  bare,
  bun,
  fastify,
  limit,
  peers,
  petstore,
  petstoreBefore,
  type Contestant,
} from './contestants.js';
import { interleaved, type Figures } from './figures.js';
import { clients, type Client } from './load.js';
import { adding, addingToFile, reading, type Operation } from './operations.js';
import type { Bench, Part } from './part.js';
import { decimal, none, whole, type Table } from './report.js';

const { one, list20, list100, byStatus, noKey, notFound } = reading;

/** Every operation and every peer at 64 connections, then what matters most at other clients. */
export const speed: Part = {
  name: 'speed',
  measure: async (bench) => {
    const some = [limit, fastify, bun];
    const main = [one, list20, list100, byStatus, noKey, notFound];
    const against = (client: Client, others: readonly Contestant[]) => ({
      client,
      inMemory: [bare, petstore('memory:'), ...others],
      inFile: (file: () => string) => [bare, petstore(file())],
    });
    return [
      ...(await race(bench, 'speed', {
        ...against(clients.sleeping, [limit, ...peers]),
        operations: Object.values(reading),
      })),
      ...(await race(bench, 'one-connection', {
        ...against(clients.alone, some),
        operations: main,
      })),
      ...(await race(bench, 'never-sleeping', {
        ...against(clients.neverSleeping, some),
        operations: main,
      })),
    ];
  },
};

/** This checkout against the one that BEFORE names: what a change costs. */
export const before: Part = {
  name: 'before',
  isExtra: true,
  measure: (bench) =>
    race(bench, 'before', {
      client: clients.sleeping,
      operations: Object.values(reading),
      inMemory: [petstoreBefore('memory:'), petstore('memory:')],
      inFile: (file) => [petstoreBefore(file()), petstore(file())],
    }),
};

/** Who runs what, and at which client. */
interface Entry {
  readonly client: Client;
  readonly operations: readonly Operation[];
  /** The first is what the others are measured against; it runs once more as the last. */
  readonly inMemory: readonly Contestant[];
  /** The same of those that keep animals in a file, a new one at each call. */
  readonly inFile: (file: () => string) => readonly Contestant[];
}

/**
 * All start afresh and prove that they answer alike. Adding comes last, so that all lists are of
 * the same animals.
 */
async function race(bench: Bench, key: string, entry: Entry): Promise<readonly Table[]> {
  const { client } = entry;
  const session = bench.session.within();
  const file = (): string => `file:${session.folder()}/pets.jsonl`;
  const inMemory = await session.startAll([...entry.inMemory, again(entry.inMemory)]);
  const contestants = entry.inFile(file);
  // Once more is bare, or the same petstore with a file of its own.
  const inFile = await session.startAll([...contestants, again(entry.inFile(file))]);
  for (const server of [...inMemory, ...inFile]) if (!server.isBare) await fill(server);
  await proveSameAnswers([...inMemory, ...inFile], [...entry.operations, adding]);

  const operations = bench.isShort ? [one] : entry.operations;
  const races = [...operations, adding, addingToFile].map((operation) => ({
    operation,
    servers: operation === addingToFile ? inFile : inMemory,
  }));
  const rows: { readonly name: string; readonly figures: ReadonlyMap<string, Figures> }[] = [];
  for (const { operation, servers } of races) {
    bench.say(`${operation.name}, ${client.name}`);
    const turns = servers.map((server) => ({ server, operation }));
    rows.push({ name: operation.name, figures: await interleaved(turns, client, bench) });
  }
  await session.end();

  const [reference = '', ...names] = inMemory.map(({ name }) => name);
  return [
    {
      key,
      title: `Ratio to ${reference}, ${client.name}`,
      note:
        `The processor time of ${reference} for each request, divided by each server's: above 1 is better; medians of all ` +
        `rounds. How far "${names.at(-1)}" is from 1 is how far the others of its row may be off.`,
      head: ['', ...names],
      rows: rows.map(({ name, figures }) => [
        name,
        ...names.map((server) => {
          const ratio = figures.get(server)?.ratio;
          return ratio === undefined ? none : decimal(ratio);
        }),
      ]),
    },
    {
      title: `All figures, ${client.name}`,
      head: ['', 'server', 'requests/s', 'CPU µs/request', 'p50 ms', 'p99 ms', 'ratio', 'rounds'],
      rows: rows.flatMap(({ name, figures }) =>
        [...figures].map(
          ([server, { requestsPerSecond, cpuUs, p50Ms, p99Ms, ratio, ratioRange }]) => [
            name,
            server,
            whole(requestsPerSecond),
            decimal(cpuUs, 1),
            decimal(p50Ms),
            decimal(p99Ms),
            decimal(ratio),
            ratioRange.map((end) => decimal(end)).join(' to '),
          ],
        ),
      ),
    },
  ];
}
