/**
 * Helpers of the PostgreSQL tests: storages, pools and locks that end with their test, and rows.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import pg from 'pg';
import type { PetDraft, PetQuery, PetStorage, TextPage } from '../../dist/index.js';
import {
  postgresStorage,
  waitForDatabase,
  type PostgresPool,
  type PostgresStorageOptions,
} from '../../dist/postgres/index.js';
import { atEnd } from '../support/at-end.js';
import { until } from '../support/waiting.js';
import { newDatabase, query, sessionAt } from './database.js';
import { TcpProxy } from './proxy.js';

import { rex } from '../storage/pets.js';

export * from '../storage/pets.js';
export * from '../storage/once.js';

/**
 * Opens a storage that is closed after the test, by default in a new database. Retries transient
 * failures, because a busy machine may not connect within 2 s.
 */
export async function open(
  t: TestContext,
  database?: string | PostgresPool,
  options: PostgresStorageOptions = {},
): Promise<PetStorage> {
  const place = database ?? (await newDatabase());
  const storage = await waitForDatabase(
    () => postgresStorage(place, options),
    (_, message, fields) => t.diagnostic(`${message}: ${fields?.['error']}`),
  );
  atEnd(t, () => storage.close());
  return storage;
}

/** Opens a storage, and collects the level and message of each line that it logs. */
export async function openLogged(t: TestContext, database: string | PostgresPool) {
  const logged: string[] = [];
  const log = (level: string, message: string) => logged.push(`${level} ${message}`);
  return { storage: await open(t, database, { log }), logged };
}

/** Opens a logged storage in a new database; `sql` runs a statement on another connection. */
export async function openNew(t: TestContext) {
  const url = await newDatabase();
  const sql = (statement: string) => linesOf(url, statement);
  return { url, sql, ...(await openLogged(t, url)) };
}

/** As `openNew`, through a proxy that can fail. */
export async function openFar(t: TestContext) {
  const { url, far, proxy } = await proxied(t);
  const sql = (statement: string) => linesOf(url, statement);
  return { url, sql, far, proxy, ...(await openLogged(t, far)) };
}

/** Returns a pool that ends after the test, by default of a new database. */
export async function poolOf(
  t: TestContext,
  { url, ...config }: pg.PoolConfig & { readonly url?: string } = {},
): Promise<pg.Pool> {
  const connectionString = url ?? (await newDatabase());
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 30_000, ...config });
  pool.on('error', () => undefined);
  atEnd(t, () => pool.end());
  return pool;
}

/** A statement as a storage passes it to the driver. */
export type Statement = Parameters<Awaited<ReturnType<PostgresPool['connect']>>['query']>[0];

/**
 * Intercepts each statement of a pool: the storage gets the result of `response`, which may call
 * `send`.
 */
export function intercept(
  pool: pg.Pool,
  response: (statement: Statement, send: () => Promise<pg.QueryResult>) => unknown,
): void {
  pool.on('connect', (client) => {
    const query = client.query.bind(client);
    client.query = (...args: unknown[]) => {
      const send = () => Reflect.apply(query, client, args);
      // Calls with several arguments are those of the pool itself.
      return args.length > 1 ? send() : response(Object(args[0]), send);
    };
  });
}

/** Collects the statements of connections that a pool makes from now on. */
export function statementsOf(pool: pg.Pool): Statement[] {
  const statements: Statement[] = [];
  intercept(pool, (statement, send) => (statements.push(statement), send()));
  return statements;
}

/** Counts the connections that a pool makes from now on. */
export function connectionsOf(pool: pg.Pool): () => number {
  let connections = 0;
  pool.on('connect', () => connections++);
  return () => connections;
}

/** Returns the URL of a database, by default a new one, and its URL through a proxy. */
export async function proxied(
  t: TestContext,
  url?: string,
): Promise<{ readonly url: string; readonly far: string; readonly proxy: TcpProxy }> {
  const near = url ?? (await newDatabase());
  const proxy = await TcpProxy.before(t, near);
  return { url: near, far: proxy.url, proxy };
}

/** Holds the locks of a statement, by default of the counter, until the result is called. */
export async function hold(
  t: TestContext,
  url: string,
  statement = 'SELECT * FROM petstore_counters FOR UPDATE',
): Promise<() => Promise<void>> {
  const holder = await sessionAt(url);
  atEnd(t, () => holder.end());
  await holder.query(`BEGIN; ${statement}`);
  return () => holder.end();
}

/** Returns the rows of a statement as lines, with `|` between columns. */
export async function linesOf(url: string, statement: string): Promise<string> {
  const rows = await query(url, statement);
  return rows.map((row) => Object.values(row).join('|')).join('\n');
}

/** Waits until a statement returns a row. */
export async function untilRow(url: string, text: string): Promise<void> {
  await until(text, async () => (await query(url, text)).length > 0);
}

/** Waits until `count` sessions wait for a lock of the counter or the writers, or of `table`. */
export async function untilWaiting(url: string, count: number, table?: string): Promise<void> {
  const held =
    table === undefined
      ? "pid IN (SELECT pid FROM pg_locks WHERE relation IN ('petstore_counters'::regclass, 'petstore_writers'::regclass))"
      : `relation = '${table}'::regclass`;
  await untilRow(
    url,
    `SELECT 1 FROM pg_locks WHERE NOT granted AND ${held} HAVING count(DISTINCT pid) = ${count}`,
  );
}

/** Ends the sessions of all storages. */
export const endSessions =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'";

/** Changes or resets a setting of the whole server. */
export async function alterSystem(url: string, change: string): Promise<void> {
  await query(url, `ALTER SYSTEM ${change}`);
  await query(url, 'SELECT pg_reload_conf()');
}

/** Waits until a storage adds a pet. */
export const untilAdded = (storage: PetStorage, draft: PetDraft = rex) =>
  until('an insert', () => storage.insert(draft).catch(() => undefined));

export interface PetRow {
  readonly id: number;
  readonly json: string;
}

/** Returns the pets in the database, in the order of their ids. */
export async function rowsIn(url: string): Promise<readonly PetRow[]> {
  const rows = await query(
    url,
    "SELECT id, convert_from(json, 'UTF8') AS json FROM petstore_pets ORDER BY id",
  );
  return rows.map(({ id, json }) => ({ id: Number(id), json: String(json) }));
}

/** Returns the names of the pets in the database, in the order of their ids. */
export async function namesIn(url: string): Promise<readonly string[]> {
  return (await rowsIn(url)).map(({ json }) => JSON.parse(json).name);
}

/** Asserts that the database holds `count` pets, and that their ids have no gaps. */
export async function expectStored(url: string, count: number): Promise<void> {
  assertConsecutive(
    (await rowsIn(url)).map(({ id }) => id),
    count,
  );
}

/** Asserts that ids are 1 to `count` in this order. */
export function assertConsecutive(ids: readonly (number | bigint)[], count = ids.length): void {
  assert.deepEqual(
    ids.map(Number),
    Array.from({ length: count }, (_, index) => index + 1),
    'ids are 1, 2, 3 …',
  );
}

/** Returns the id in the JSON of a pet. */
export const idIn = (text = ''): number => Number(/^\{"id":(\d+),/.exec(text)?.[1]);

/** Yields the texts of each page. */
export async function* pagesOf(
  { texts }: PetStorage,
  query: PetQuery,
): AsyncGenerator<readonly string[]> {
  for (let after: bigint | undefined = 0n; after !== undefined; ) {
    const page: TextPage | undefined = await texts?.list({ ...query, after });
    yield page?.texts ?? [];
    after = page?.next;
  }
}
