/**
 * Compares adding to PostgreSQL over lines of a limited rate, with probes of readiness, and while
 * expired keys are deleted.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { TcpProxy } from '../postgres/proxy.js';
import { peer, petstore } from './contestants.js';
import { median, type Bench, type Part } from './figures.js';
import { clients as kinds } from './load.js';
import { adding, operation, post } from './operations.js';
import { startPostgres } from './postgres.js';
import { decimal, whole, type Table } from './report.js';
import { startContestant, type Server } from './servers.js';

export const linesPart: Part = [addingOverLines, addingWithProbes, addingWithDeletes];

const connectionCounts = [64, 512];
const sizesKb = [1, 4, 8, 20, 60];
/** The rates in bytes a second. */
const rates = [300_000, 1_250_000, 2_000_000, 10_000_000, Number.POSITIVE_INFINITY];

/**
 * The time of a slice in seconds. Pets in flight at its end do not count: up to two batches, each
 * of which has the line for less than a second.
 */
const sliceSeconds = 8;

async function addingOverLines(bench: Bench): Promise<Table> {
  const near = await startPostgres(bench.scope);
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

  const ownRates = bench.isShort ? [10_000_000] : rates;
  const rows: (readonly string[])[] = [];
  for (const connections of bench.isShort ? [64] : connectionCounts)
    for (const sizeKb of bench.isShort ? [4] : sizesKb) {
      const ratios: string[] = [];
      for (const rate of ownRates) {
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
      'one INSERT for each request over 10 connections: one slice each. A proxy limits the rate of all bytes to the database.',
    head: ['connections', 'a pet has', ...ownRates.map(nameOf)],
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

/** The time of a commit in ms, which is that of a synchronous standby 20 ms away. */
const commitMs = 20;

/** The interval of the probes of readiness in ms. */
const probeMs = 500;

/** Returns the status of a probe of readiness. */
async function probe({ url }: Server): Promise<number> {
  const response = await fetch(new URL('/readyz', url));
  await response.arrayBuffer();
  return response.status;
}

async function addingWithProbes(bench: Bench): Promise<Table> {
  const url = await startPostgres(bench.scope, { slowerByMs: commitMs });
  const server = await startContestant(bench.scope, petstore(url));

  const rows: (readonly string[])[] = [];
  for (const connections of bench.isShort ? [64] : connectionCounts) {
    bench.say(`${connections} connections with probes`);
    const withoutProbes: number[] = [];
    const withProbes: number[] = [];
    for (let round = 0; round < bench.rounds; round++) {
      withoutProbes.push(await acknowledged(bench, server, adding, connections));
      const statuses: Promise<number>[] = [];
      const probing = setInterval(() => statuses.push(probe(server)), probeMs);
      withProbes.push(await acknowledged(bench, server, adding, connections));
      clearInterval(probing);
      const wrong = (await Promise.all(statuses)).find((status) => status !== 200);
      if (wrong !== undefined) throw new Error(`a probe of readiness had the status ${wrong}`);
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

/** More expired keys than a server deletes in a round. */
const expiredKeys = 200_000;

/** The time in ms after which a server looks for expired keys again. */
const sweepMs = 10_000;

async function addingWithDeletes(bench: Bench): Promise<Table> {
  const url = await startPostgres(bench.scope);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const keysLeft = async () =>
    Number((await client.query('SELECT count(*) FROM petstore_idempotency')).rows[0].count);

  const scope = bench.scope.within();
  const server = await startContestant(scope, petstore(url));
  const clients = { ...kinds.sleeping, seconds: sliceSeconds };
  const slices: { name: string; requestsPerSecond: number; p99Ms: number }[] = [];
  bench.say('adding while expired keys are deleted');
  for (let round = 0; round < bench.rounds; round++)
    for (const name of ['no', 'yes']) {
      if (name === 'yes')
        await client.query(
          `INSERT INTO petstore_idempotency SELECT 'key' || n, '', 0, 1 FROM generate_series(1, ${expiredKeys}) AS n`,
        );
      // Both wait, so that the server is as idle before each slice.
      await sleep(sweepMs);
      const before = await keysLeft();
      const { requestsPerSecond, p99Ms } = await bench.load.send(server, adding, clients);
      const deleted = before - (await keysLeft());
      if (deleted > 0 !== (name === 'yes')) throw new Error(`${deleted} keys were deleted`);
      slices.push({ name, requestsPerSecond, p99Ms });
      await client.query('TRUNCATE petstore_idempotency');
    }
  await client.end();
  await scope.end();

  return {
    key: 'postgres-deletes',
    title: 'Adding to PostgreSQL while expired keys are deleted',
    note: `A server deletes keys in batches of 200 while ${clients.name} add. A row has the medians of slices of ${sliceSeconds} s.`,
    head: ['keys are deleted', 'adds/s', 'p99 ms'],
    rows: ['no', 'yes'].map((name) => {
      const own = slices.filter((one) => one.name === name);
      const medianOf = (field: 'requestsPerSecond' | 'p99Ms') =>
        median(own.map((slice) => slice[field]));
      return [name, whole(medianOf('requestsPerSecond')), decimal(medianOf('p99Ms'))];
    }),
  };
}
