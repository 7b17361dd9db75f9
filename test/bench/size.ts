/** Measures the cost of operations by the size of the catalogue, memory, and installed sizes. */
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { memoryOf } from '../support/kernel.js';
import { folder, root } from '../support/process.js';
import { firstWrittenId, writeCatalogue } from './catalogue.js';
import { peersFolder, petstore, versionOfPeer } from './contestants.js';
import { interleaved, type Bench, type Part } from './figures.js';
import { clients } from './load.js';
import { addingToFile, get, operation, post, reading, type Operation } from './operations.js';
import { decimal, megabytes, none, whole, type Table } from './report.js';
import { fill, startContestant, startContestants } from './servers.js';

export const sizePart: Part = [growth, memory, installations];

/**
 * Measures each operation on catalogues of all sizes. Operations by id use ids of the whole
 * catalogue.
 */
async function growth(bench: Bench): Promise<Table> {
  const counts = bench.isShort ? [1_000, 2_000, 1_000] : [1_000, 100_000, 1_000_000, 1_000];
  const names = counts.map(
    (count, index) => whole(count) + (counts.indexOf(count) < index ? ' again' : ''),
  );
  const contestants = counts.map((count, index) => {
    const path = join(folder(bench.scope), 'pets.jsonl');
    writeCatalogue(path, count);
    return petstore(`file:${path}`, names[index]);
  });
  const servers = await startContestants(bench.scope, contestants);
  const rows: string[][] = [];
  for (const operationOver of bench.isShort ? operations.slice(0, 1) : operations) {
    const targets = servers.map((server, index) => ({
      server,
      operation: operationOver(counts[index] ?? 0),
    }));
    const name = targets[0]?.operation.name ?? '';
    bench.say(`${name}, in catalogues of all sizes`);
    const [first, ...others] = await interleaved(targets, clients.sleeping, bench);
    rows.push([name, decimal(first?.cpuUs, 1), ...others.map(({ ratio }) => decimal(1 / ratio))]);
  }
  return {
    key: 'growth',
    title: 'Cost by the size of the catalogue',
    note:
      'Processor time for each request: in microseconds with 1,000 pets, then as a multiple of that. The last column ' +
      'shows the error. `one`, `page anywhere` and `404` use ids of the whole catalogue. The rarest status has 25 pets at each size.',
    head: ['', `${names[0]}: CPU µs`, ...names.slice(1)],
    rows,
  };
}

/** The number of different requests; more than the pages that a server could cache. */
const spots = 900;

/** Returns requests spread evenly over the ids of `count` pets. */
function spread(count: number, path: (id: number) => string): readonly string[] {
  return Array.from({ length: spots }, (_, spot) =>
    get(path(firstWrittenId + Math.floor((spot * count) / spots))),
  );
}

/** The operations, each for a catalogue of `count` pets. */
const operations: readonly ((count: number) => Operation)[] = [
  (count) => operation('one', 200, ...spread(count, (id) => `/v1/pets/${id}`)),
  () => reading.list20,
  () => reading.list100,
  (count) => operation('page anywhere', 200, ...spread(count - 21, (id) => `/v1/pets?after=${id}`)),
  (count) => operation('last page', 200, get(`/v1/pets?after=${firstWrittenId + count - 21}`)),
  () => reading.byStatus,
  () => operation('rarest status', 200, get('/v1/pets?status=pending')),
  (count) => operation('404', 404, ...spread(count, (id) => `/v1/pets/${id + count}`)),
  () => reading.noKey,
  () => addingToFile,
];

/**
 * Measures the least memory early and late in a long load, because garbage collection makes memory
 * vary.
 */
async function memory(bench: Bench): Promise<Table> {
  const server = await startContestant(bench.scope, petstore('memory:'));
  await fill(server);
  const watched = async (what: string, full: number, next: () => Operation): Promise<string[]> => {
    const count = bench.isShort ? full / 100 : full;
    const samples: { readonly share: number; readonly bytes: number }[] = [];
    let sent = 0;
    while (sent < count) {
      sent += (await bench.load.send(server, next(), clients.sleeping)).requests;
      samples.push({ share: sent / count, bytes: memoryOf(server.process.pid) });
      bench.say(`${whole(sent)} of ${whole(count)} ${what}`);
    }
    const between = (from: number, to: number): readonly number[] =>
      samples.filter(({ share }) => share >= from && share < to).map(({ bytes }) => bytes);
    // In a quick trial the first sample is also the last, so there is no early one.
    const early = between(0.1, 0.5);
    const cells = [
      early.length === 0 ? none : megabytes(Math.min(...early)),
      megabytes(Math.min(...between(0.6, Infinity))),
      megabytes(Math.max(...between(0, Infinity))),
    ];
    return [what, whole(sent), ...cells];
  };
  const closing = get('/v1/pets/500', { headers: ['Connection: close'] });
  const rows = [
    await watched('mixed requests', 3_000_000, mixedRequests),
    await watched('connections', 200_000, () => operation('closed after one', 200, closing)),
  ];
  return {
    key: 'memory',
    title: 'Resident memory over time',
    note:
      'Measured after each second of load. Memory varies with garbage collection, so its low points are compared: the least from 10 % to 50 % ' +
      'of the load, and the least from 60 % on. The requests are reads and errors of all kinds, with new wrong keys, ids and pages each time. ' +
      'Adding is not measured, because each pet takes memory.',
    head: ['', 'sent', 'least, early', 'least, late', 'most'],
    rows,
  };
}

/** Returns requests with new wrong keys and ids each time, so that a leaking cache would grow. */
function mixedRequests(): Operation {
  const requests = Array.from({ length: 250 }).flatMap(() => {
    const number = randomInt(1_000_000);
    return [
      get(`/v1/pets/${1 + (number % 1_000)}`),
      get(`/v1/pets?limit=${1 + (number % 100)}`),
      get(`/v1/pets?after=${number % 1_000}`),
      get(`/v1/pets?status=sold&after=${number % 1_000}`),
      get(`/v1/pets/${1_000_000 + number}`),
      get('/v1/pets', { authorization: `Bearer psk_wrong-${number}` }),
      get(`/v1/pets?limit=${101 + number}`),
      post({ name: number }),
    ];
  });
  return operation('mixed', 'mixed', ...requests);
}

/** The packages of each peer. */
const packagesOfPeers = [
  ['fastify', 'lossless-json'],
  ['hono', '@hono/node-server', 'lossless-json', 'safe-stable-stringify'],
  ['express', 'lossless-json', 'safe-stable-stringify'],
  ['json-server'],
  ['bun'],
];

/** Measures the package as npm would pack it, and the installed packages of the peers. */
async function installations(): Promise<Table> {
  const [petstore] = npm(root, 'pack', '--dry-run', '--json', '--ignore-scripts');
  const peers = packagesOfPeers.map((names) => {
    const selectors = names.flatMap((name) => {
      const own = `:root > [name="${name}"]`;
      return [own, `${own} *`];
    });
    const folders = npm(peersFolder, 'query', selectors.join(', ')).map(({ path }) => path);
    const bytes = folders.reduce((sum, path) => sum + sizeOf(path), 0);
    const versions = names.map(versionOfPeer).join(', ');
    return [names[0] ?? '', versions, String(folders.length), megabytes(bytes)];
  });
  return {
    key: 'installed',
    title: 'Installed size',
    note: 'Each package with all its dependencies, and the bytes of their files. Bun is the runtime itself; the others need Node too.',
    head: ['', 'version', 'packages', 'installed'],
    rows: [
      ['petstore', petstore?.version ?? none, '1', megabytes(petstore?.unpackedSize)],
      ...peers,
    ],
  };
}

/** Runs npm, and parses its JSON output. */
function npm(
  cwd: string,
  ...args: readonly string[]
): readonly { readonly version: string; readonly path: string; readonly unpackedSize: number }[] {
  return JSON.parse(execFileSync('npm', args, { cwd, encoding: 'utf8' }));
}

/** Returns the size in bytes of the files of a package, without nested packages. */
function sizeOf(path: string): number {
  const status = statSync(path);
  if (!status.isDirectory()) return status.size;
  return readdirSync(path)
    .filter((name) => name !== 'node_modules')
    .reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}
