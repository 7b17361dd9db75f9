/** Compares the file storage and PostgreSQL with other ways to store pets. */
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { folderOnDisk } from '../support/in-memory.js';
import { folder } from '../support/process.js';
import { peer, petstore, sqlite, type Contestant } from './contestants.js';
import { interleaved, median, type Bench, type Part } from './figures.js';
import { clients } from './load.js';
import { adding, get, operation, type Operation } from './operations.js';
import { startPostgres } from './postgres.js';
import { decimal, whole, type Table } from './report.js';
import { checkSameResponses, startContestants, type Server } from './servers.js';

export const storagePart: Part = [addingToDisk, addingToPostgres, pagesOfPostgres];

/** The heads of the columns with figures. */
const figuresHead = ['server', 'requests/s', 'first ÷ this', 'CPU µs', 'p50 ms', 'p99 ms'];

/** Measures servers, and returns a row for each, which begins with `cells`. */
async function compared(
  bench: Bench,
  servers: readonly Server[],
  operation: Operation,
  connections: number,
  ...cells: readonly string[]
): Promise<readonly (readonly string[])[]> {
  bench.say(`${operation.name}, ${cells.join(', ')}`);
  const targets = servers.map((server) => ({ server, operation }));
  const kind = { name: `${connections} connections`, connections };
  const figures = await interleaved(targets, kind, bench);
  return figures.map(({ name, requestsPerSecond, paceRatio, cpuUs, p50Ms, p99Ms }) => [
    ...cells,
    name,
    whole(requestsPerSecond),
    decimal(1 / paceRatio),
    decimal(cpuUs, 1),
    decimal(p50Ms),
    decimal(p99Ms),
  ]);
}

/** Measures adds over different numbers of connections, and returns the rows. */
async function added(
  bench: Bench,
  contestants: readonly Contestant[],
  counts: readonly number[],
  ...cells: readonly string[]
): Promise<readonly (readonly string[])[]> {
  const servers = await startContestants(bench.scope, contestants);
  const rows: (readonly string[])[] = [];
  for (const count of bench.isShort ? [64] : counts)
    rows.push(...(await compared(bench, servers, adding, count, String(count), ...cells)));
  return rows;
}

async function addingToDisk(bench: Bench): Promise<Table> {
  const home = folder(bench.scope);
  return {
    key: 'file-adds',
    title: 'Adding with the pet on the disk before the 201',
    note:
      'All servers are the petstore, and only the storage differs. `file` and better-sqlite3 (WAL, synchronous=FULL) sync before the 201. ' +
      '`batched` uses one transaction for all waiting requests, as the file storage does; `single` uses one transaction for each request. ' +
      'better-sqlite3 is omitted if it is not built for this Node.',
    head: ['connections', ...figuresHead],
    rows: await added(
      bench,
      [petstore(`file:${home}/pets.jsonl`, 'file'), petstore('memory:', 'memory'), ...sqlite(home)],
      [1, 16, 64],
    ),
  };
}

async function addingToPostgres(bench: Bench): Promise<Table> {
  const rows: (readonly string[])[] = [];
  for (const slowerByMs of bench.isShort ? [1] : [0, 1, 4]) {
    const disk = folderOnDisk('petstore-bench-');
    const sync = `${decimal(slowerByMs + syncMs(disk), 1)} ms`;
    const scope = bench.scope.within();
    const url = await startPostgres(scope, { folder: disk, slowerByMs });
    const single = ['10', '64'].map((connections) =>
      peer('single-insert', `INSERT each, pool of ${connections}`, url, connections),
    );
    rows.push(...(await added({ ...bench, scope }, [petstore(url), ...single], [64, 512], sync)));
    await scope.end();
  }
  return {
    key: 'postgres-adds',
    title: 'Adding to PostgreSQL',
    note: 'One PostgreSQL that syncs every commit, on the disk of this machine, also with syncs made slower. The other servers have the same HTTP, but run one INSERT for each request.',
    head: ['connections', 'a sync takes', ...figuresHead],
    rows,
  };
}

/** Returns the median milliseconds of a write and sync of 8 KiB. */
function syncMs(folder: string): number {
  const path = join(folder, 'probe');
  const file = openSync(path, 'w');
  const times = Array.from({ length: 1_000 }, () => {
    const startedAt = performance.now();
    writeSync(file, Buffer.alloc(8_192), 0, 8_192, 0);
    fdatasyncSync(file);
    return performance.now() - startedAt;
  });
  closeSync(file);
  rmSync(path);
  return median(times);
}

async function pagesOfPostgres(bench: Bench): Promise<Table> {
  const { scope } = bench;
  const url = await startPostgres(scope);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const rows: (readonly string[])[] = [];
  const contestants = [petstore(url), peer('hand-written', 'by hand', url)];
  const servers = await startContestants(scope, contestants);
  const pageAfter = (after: number) => get(`/v1/pets?limit=20&after=${after}`);
  for (const count of bench.isShort ? [1_000] : [1_000, 1_000_000]) {
    await addRows(client, count);
    const spots = Array.from({ length: 900 }, (_, spot) => Math.floor((spot / 900) * (count - 21)));
    for (const each of [
      operation('random pages', 200, ...spots.map(pageAfter)),
      operation('one page', 200, pageAfter(0)),
    ]) {
      await checkSameResponses(servers, [each]);
      const { connections } = clients.sleeping;
      rows.push(...(await compared(bench, servers, each, connections, each.name, whole(count))));
    }
  }
  await client.end();
  return {
    key: 'postgres-pages',
    title: 'Pages from PostgreSQL',
    note: 'Pages of 20 pets over 64 connections. `by hand` is a server on `node:http` and `pg` with a prepared statement.',
    head: ['pages', 'pets', ...figuresHead],
    rows,
  };
}

/** Adds rows to both tables, up to `count` pets. */
async function addRows(client: pg.Client, count: number): Promise<void> {
  await client.query(
    'CREATE TABLE IF NOT EXISTS hand_written (id int8 PRIMARY KEY, name text NOT NULL, category_id int8 NOT NULL, status text)',
  );
  await client.query(
    `INSERT INTO hand_written SELECT id, 'Kitten ' || id, 1 + id % 40, (ARRAY['available', 'sold', NULL])[1 + id % 3]
    FROM generate_series((SELECT count(*) + 1 FROM hand_written), ${count}) AS id`,
  );
  await client.query(
    `INSERT INTO petstore_pets SELECT id, status, convert_to('{"id":' || id || ',"name":"' || name || '","categoryId":' ||
      category_id || COALESCE(',"status":"' || status || '"', '') || '}', 'UTF8')
    FROM hand_written WHERE id > (SELECT count(*) FROM petstore_pets)`,
  );
  for (const table of ['hand_written', 'petstore_pets'])
    await client.query(`VACUUM ANALYZE ${table}`);
}
