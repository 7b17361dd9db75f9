/** Compares adding to PostgreSQL over lines of a limited rate, and with probes of readiness. */
import { randomBytes } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { migratePostgres } from '../../dist/postgres/index.js';
import { Cluster } from '../postgres/cluster.js';
import { TcpProxy } from '../postgres/proxy.js';
import { atEnd } from '../support/at-end.js';
import { folder } from '../support/process.js';
import { peer, petstore } from './contestants.js';
import { median, type Bench, type Part } from './figures.js';
import { preload } from './load.js';
import { adding, operation, post } from './operations.js';
import { decimal, whole, type Table } from './report.js';
import { startContestant, type Server } from './servers.js';

export const linesPart: Part = [addingOverLines, addingWithProbes];

const connectionCounts = [64, 512];
const sizesKb = [1, 4, 8, 20, 60];
/** The rates in bytes a second. */
const rates = [300_000, 1_250_000, 2_000_000, 10_000_000, Number.POSITIVE_INFINITY];

/**
 * The time of a slice in seconds. Pets in flight at its end do not count: up to two batches, each
 * of which has the line for less than a second.
 */
const sliceSeconds = 8;

/** Starts a PostgreSQL that syncs every commit, with the petstore's tables. Returns its URL. */
async function startPostgres(bench: Bench, environment: NodeJS.ProcessEnv = {}): Promise<string> {
  const settings = ['fsync=on', 'synchronous_commit=on'];
  const cluster = await Cluster.start(settings, undefined, environment);
  atEnd(bench.scope, () => cluster.remove());
  await migratePostgres(cluster.url);
  return cluster.url;
}

async function addingOverLines(bench: Bench): Promise<Table> {
  const near = await startPostgres(bench);
  const line = await TcpProxy.before(bench.scope, near);

  /** Returns the pets of the petstore in a slice, divided by those of the other server. */
  async function ratioOf(connections: number, sizeKb: number, rate: number): Promise<number> {
    line.bytesPerSecondUp = rate;
    const url = rate === Number.POSITIVE_INFINITY ? near : line.url;
    // Random letters, because PostgreSQL compresses repeated ones.
    const name = randomBytes(750 * sizeKb).toString('base64');
    const add = operation('add', 'mixed', post({ name, categoryId: 1 }));

    const counts: number[] = [];
    for (const contestant of [petstore(url), peer('single-insert', 'INSERT each', url, '10')]) {
      const scope = bench.scope.within();
      const server = await startContestant(scope, contestant);
      counts.push(await acknowledged(bench, server, add, connections));
      await scope.end();
    }
    const [own = Number.NaN, other = Number.NaN] = counts;
    return own / other;
  }

  const rows: (readonly string[])[] = [];
  for (const connections of bench.isShort ? [64] : connectionCounts)
    for (const sizeKb of bench.isShort ? [4] : sizesKb) {
      const ratios: string[] = [];
      for (const rate of bench.isShort ? [10_000_000] : rates) {
        bench.say(`${connections} connections, ${sizeKb} kB, ${nameOf(rate)}`);
        ratios.push(decimal(await ratioOf(connections, sizeKb, rate)));
      }
      rows.push([String(connections), `${sizeKb} kB`, ...ratios]);
    }

  return {
    key: 'postgres-lines',
    title: 'Adding to PostgreSQL over slow lines',
    note:
      `The pets that the petstore acknowledges in ${sliceSeconds} s, divided by those of a server with the same HTTP that runs ` +
      'one INSERT for each request over 10 connections. A proxy limits the rate of all bytes to the database.',
    head: ['connections', 'a pet has', ...rates.map(nameOf)],
    rows,
  };
}

function nameOf(rate: number): string {
  return rate === Number.POSITIVE_INFINITY ? 'no limit' : `${rate / 1e6} MB/s`;
}

/** Sends adds for a slice, and returns how many pets were acknowledged. */
async function acknowledged(
  bench: Bench,
  server: Server,
  add: typeof adding,
  connections: number,
): Promise<number> {
  const clients = { name: `${connections} connections`, connections, seconds: sliceSeconds };
  const { requests, refused } = await bench.load.send(server, add, clients);
  return requests - refused;
}

/** The time of a commit in ms: as with a synchronous standby 20 ms away. */
const commitMs = 20;

/** The interval of the probes of readiness in ms. */
const probeMs = 500;

async function addingWithProbes(bench: Bench): Promise<Table> {
  const libraries = folder(bench.scope);
  // PostgreSQL runs as another user if this process is root.
  chmodSync(libraries, 0o755);
  const url = await startPostgres(bench, {
    LD_PRELOAD: preload(libraries, 'slow-sync'),
    SYNC_US: String(1_000 * commitMs),
  });
  const server = await startContestant(bench.scope, petstore(url));

  const rows: (readonly string[])[] = [];
  for (const connections of bench.isShort ? [64] : connectionCounts) {
    bench.say(`${connections} connections with probes`);
    const withoutProbes: number[] = [];
    const withProbes: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      withoutProbes.push(await acknowledged(bench, server, adding, connections));
      const probing = setInterval(() => {
        fetch(new URL('/readyz', server.url)).then((response) => response.text(), bench.say);
      }, probeMs);
      withProbes.push(await acknowledged(bench, server, adding, connections));
      clearInterval(probing);
    }
    const without = median(withoutProbes);
    rows.push([
      String(connections),
      whole(without / sliceSeconds),
      whole(median(withProbes) / sliceSeconds),
      decimal(median(withProbes.map((count, round) => count / (withoutProbes[round] ?? count)))),
    ]);
  }

  return {
    key: 'postgres-probes',
    title: 'Adding to PostgreSQL with probes of readiness',
    note: `A commit takes ${commitMs} ms. Two probes of /readyz are sent each second.`,
    head: ['connections', 'adds/s', 'adds/s with probes', 'ratio'],
    rows,
  };
}
