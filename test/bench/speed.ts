/**
 * Measures the speed of each operation, against bare `node:http` and the peers with three kinds of
 * clients, and against another checkout.
 */
import { folder } from '../support/process.js';
import {
  again,
  bare,
  bun,
  fastify,
  handler,
  limit,
  peers,
  petstore,
  petstoreBefore,
  type Contestant,
} from './contestants.js';
import { interleaved, type Bench, type Part } from './figures.js';
import { clients, type Clients } from './load.js';
import { adding, addingToFile, reading, type Operation } from './operations.js';
import { decimal, whole, type Table } from './report.js';
import { fill, checkSameResponses, startContestants } from './servers.js';

const { one, list20, list100, byStatus, noKey, notFound } = reading;
const all = Object.values(reading);
const main = [one, list20, list100, byStatus, noKey, notFound];

/** Returns the contestants for a storage: the reference first, then the petstores. */
type Ours = (storage: () => string) => readonly Contestant[];
const ours: Ours = (storage) => [bare, petstore(storage())];

/** All operations and peers with 64 connections, then the main operations with other clients. */
export const speedPart: Part = [
  (bench) => race(bench, 'speed', clients.sleeping, all, ours, [limit, handler, ...peers]),
  (bench) =>
    race(bench, 'one-connection', clients.alone, main, ours, [limit, handler, fastify, bun]),
  (bench) =>
    race(bench, 'never-sleeping', clients.neverSleeping, main, ours, [
      limit,
      handler,
      fastify,
      bun,
    ]),
];

/** This checkout against the checkout BEFORE, which shows the cost of a change. */
export const beforePart: Part = [
  (bench) =>
    race(bench, 'before', clients.sleeping, all, (storage) => [
      petstoreBefore(storage()),
      petstore(storage()),
    ]),
];

/**
 * Starts the contestants, compares their responses, and measures each operation. The reference also
 * runs as the last contestant. Adding comes last, so that all lists have the same pets.
 */
async function race(
  bench: Bench,
  key: string,
  kind: Clients,
  operations: readonly Operation[],
  contestants: Ours,
  others: readonly Contestant[] = [],
): Promise<readonly Table[]> {
  const { scope } = bench;
  const inMemory = [...contestants(() => 'memory:'), ...others];
  const memoryServers = await startContestants(scope, [...inMemory, again(inMemory)]);
  const file = (): string => `file:${folder(scope)}/pets.jsonl`;
  const inFiles = contestants(file);
  const fileServers = await startContestants(scope, [...inFiles, again(contestants(file))]);
  const servers = [...memoryServers, ...fileServers];
  await fill(...servers);
  await checkSameResponses(servers, [...operations, adding]);

  const [reference = '', ...names] = memoryServers.map(({ name }) => name);
  const ratios: (readonly string[])[] = [];
  const rows: (readonly string[])[] = [];
  for (const operation of [...(bench.isShort ? [one] : operations), adding, addingToFile]) {
    bench.say(`${operation.name}, ${kind.name}`);
    const entered = operation === addingToFile ? fileServers : memoryServers;
    const targets = entered.map((server) => ({ server, operation }));
    const figures = await interleaved(targets, kind, bench);
    const ratioOf = (server: string) => figures.find(({ name }) => name === server)?.ratio;
    ratios.push([operation.name, ...names.map((name) => decimal(ratioOf(name)))]);
    for (const { name, requestsPerSecond, cpuUs, p50Ms, p99Ms, ratio, ratioRange } of figures)
      rows.push([
        operation.name,
        name,
        whole(requestsPerSecond),
        decimal(cpuUs, 1),
        ...[p50Ms, p99Ms, ratio].map((each) => decimal(each)),
        ratioRange.map((end) => decimal(end)).join(' to '),
      ]);
  }

  return [
    {
      key,
      title: `Ratio to ${reference}, ${kind.name}`,
      note:
        `The processor time of ${reference} for each request, divided by that of the server; above 1 is better. Medians of all ` +
        `rounds. "${names.at(-1)}" should be 1; its distance from 1 shows the error of its row.`,
      head: ['', ...names],
      rows: ratios,
    },
    {
      title: `All figures, ${kind.name}`,
      head: ['', 'server', 'requests/s', 'CPU µs/request', 'p50 ms', 'p99 ms', 'ratio', 'rounds'],
      rows,
    },
  ];
}
