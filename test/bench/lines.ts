/**
 * Compares adding to PostgreSQL over lines of a limited rate, with probes of readiness, and while
 * expired keys are deleted.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { TcpProxy } from '../postgres/proxy.js';
import { atEnd } from '../support/at-end.js';
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

/** The time of a slice in seconds. */
const sliceSeconds = 8;

/** The time in seconds before a slice over a line, in which the batches get their size. */
const warmUpSeconds = 2;

/** The interval in ms at which the last id is read. */
const readingMs = 20;

async function addingOverLines(bench: Bench): Promise<Table> {
  const near = await startPostgres(bench.scope);
  const line = await TcpProxy.before(bench.scope, near);
  const client = new pg.Client({ connectionString: near });
  client.on('error', () => undefined);
  await client.connect();
  atEnd(bench.scope, () => client.end());

  /** Returns the pets per second of the petstore, divided by those of the other server. */
  async function ratioOf(connections: number, sizeKb: number, rate: number): Promise<number> {
    line.bytesPerSecondUp = rate;
    const url = rate === Number.POSITIVE_INFINITY ? near : line.url;
    // Random letters, because PostgreSQL compresses repeated ones.
    const name = randomBytes(750 * sizeKb).toString('base64');
    const add = operation('add', 'mixed', post({ name, categoryId: 1 }));

    const perSecond: number[] = [];
    for (const [contestant, table] of [
      [petstore(url), 'petstore_pets'],
      [peer('single-insert', 'INSERT each', url, '10'), 'single_pets'],
    ] as const) {
      const scope = bench.scope.within();
      const server = await startContestant(scope, contestant);
      const clients = {
        name: `${connections} connections`,
        connections,
        seconds: warmUpSeconds + sliceSeconds,
      };
      const sending = bench.load.send(server, add, clients);
      perSecond.push(await storedPerSecond(client, table, sending));
      await scope.end();
    }
    const [own = Number.NaN, other = Number.NaN] = perSecond;
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
      `The pets per second that the petstore stores, divided by those of a server with the same HTTP that runs one INSERT ` +
      `for each request over 10 connections. Each server is measured once, for about ${sliceSeconds} s: from the first commit ` +
      `after a warm-up of ${warmUpSeconds} s to the last one. A proxy limits the rate of all bytes to the database.`,
    head: ['connections', 'a pet has', ...ownRates.map(nameOf)],
    rows,
  };
}

function nameOf(rate: number): string {
  return rate === Number.POSITIVE_INFINITY ? 'no limit' : `${rate / 1e6} MB/s`;
}

/**
 * Returns how many pets a table gets per second while they are sent. It counts from one commit
 * after the warm-up to the last one, so that pets in flight do not matter.
 */
async function storedPerSecond(
  client: pg.Client,
  table: string,
  sending: Promise<unknown>,
): Promise<number> {
  let isSent = false;
  void sending.catch(() => undefined).finally(() => (isSent = true));
  const countsFrom = performance.now() + 1_000 * warmUpSeconds;

  const commits: { readonly ms: number; readonly lastId: number }[] = [];
  let lastId = Number.NaN;
  while (!isSent) {
    await sleep(readingMs);
    const { rows } = await client.query(`SELECT coalesce(max(id), 0) AS last_id FROM ${table}`);
    const ms = performance.now();
    const id = Number(rows[0].last_id);
    if (ms > countsFrom && !Number.isNaN(lastId) && id !== lastId) commits.push({ ms, lastId: id });
    lastId = id;
  }
  await sending;

  const [first, last] = [commits[0], commits.at(-1)];
  if (first === undefined || last === undefined || first === last)
    throw new Error(`${table} had fewer than two commits`);
  return (1_000 * (last.lastId - first.lastId)) / (last.ms - first.ms);
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
