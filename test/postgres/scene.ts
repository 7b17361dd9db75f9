/**
 * Scenes of the tests on PostgreSQL: storages and pools that end with their test, a way to the
 * database that fails, somebody who holds a table, and what the tables hold.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import pg from 'pg';
import type { PetDraft, PetQuery, PetStorage, TextPage } from '../../dist/index.js';
import {
  postgresStorage,
  type PostgresPool,
  type PostgresStorageOptions,
} from '../../dist/postgres/index.js';
import { atEnd } from '../support/at-end.js';
import { until } from '../support/waiting.js';
import { newDatabase, query, sessionAt } from './database.js';
import { TcpProxy } from './proxy.js';

import { rex } from '../storage/animals.js';

export * from '../storage/animals.js';
export * from '../storage/once.js';

/** A storage that is closed behind the test; without a database in a new one. */
export async function open(
  t: TestContext,
  database?: string | PostgresPool,
  options: PostgresStorageOptions = {},
): Promise<PetStorage> {
  const storage = await postgresStorage(database ?? (await newDatabase()), options);
  atEnd(t, () => storage.close());
  return storage;
}

/** The same, and the level and the message of each line that it logs. */
export async function openLogged(t: TestContext, database: string | PostgresPool) {
  const logged: string[] = [];
  const log = (level: string, message: string) => logged.push(`${level} ${message}`);
  return { storage: await open(t, database, { log }), logged };
}

/** A new database and a storage on it, a logged one; `sql` runs a statement past that. */
export async function openNew(t: TestContext) {
  const url = await newDatabase();
  const sql = (statement: string) => answerTo(url, statement);
  return { url, sql, ...(await openLogged(t, url)) };
}

/** The same by way of a proxy that can fail. */
export async function openFar(t: TestContext) {
  const { url, far, proxy } = await proxied(t);
  const sql = (statement: string) => answerTo(url, statement);
  return { url, sql, far, proxy, ...(await openLogged(t, far)) };
}

/** A pool that ends behind the test; without a URL of a new database. */
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

/** A statement as a storage hands it to the driver. */
export type Statement = Parameters<Awaited<ReturnType<PostgresPool['connect']>>['query']>[0];

/**
 * Has each statement of a storage on a pool go this way: `send` sends it, and its answer is what
 * the storage hears.
 */
export function intercept(
  pool: pg.Pool,
  answer: (statement: Statement, send: () => Promise<pg.QueryResult>) => unknown,
): void {
  pool.on('connect', (client) => {
    const ask = client.query.bind(client);
    client.query = (...args: unknown[]) => {
      const send = () => Reflect.apply(ask, client, args);
      // Several arguments are the pool's own.
      return args.length > 1 ? send() : answer(Object(args[0]), send);
    };
  });
}

/** What a pool is asked from now on, by connections that are still to be made. */
export function askedOf(pool: pg.Pool): Statement[] {
  const asked: Statement[] = [];
  intercept(pool, (statement, send) => (asked.push(statement), send()));
  return asked;
}

/** How many connections a pool has made from now on. */
export function connectionsOf(pool: pg.Pool): () => number {
  let connections = 0;
  pool.on('connect', () => connections++);
  return () => connections;
}

/** A database, a new one without a URL, and its URL by way of a proxy that can fail. */
export async function proxied(
  t: TestContext,
  url?: string,
): Promise<{ readonly url: string; readonly far: string; readonly proxy: TcpProxy }> {
  const near = url ?? (await newDatabase());
  const proxy = await TcpProxy.before(t, near);
  return { url: near, far: proxy.url, proxy };
}

/** Holds what a statement locks, at first the counter, until the answer is called or the test ends. */
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

/** What a statement answers, as psql says it: a line for each row, `|` between its columns. */
export async function answerTo(url: string, statement: string): Promise<string> {
  const rows = await query(url, statement);
  return rows.map((row) => Object.values(row).join('|')).join('\n');
}

/** Waits until a statement answers a row. */
export async function untilRow(url: string, text: string): Promise<void> {
  await until(text, async () => (await query(url, text)).length > 0);
}

/** Waits until so many sessions wait for a lock of the counter, the writers, or another table. */
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

/** Ends the sessions of every storage. */
export const endSessions =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'";

/** Changes a setting of the whole server, or takes a change back. */
export async function alterSystem(url: string, change: string): Promise<void> {
  await query(url, `ALTER SYSTEM ${change}`);
  await query(url, 'SELECT pg_reload_conf()');
}

/** Waits until a storage adds an animal. */
export const untilAdded = (storage: PetStorage, draft: PetDraft = rex) =>
  until('an insert', () => storage.insert(draft).catch(() => undefined));

export interface PetRow {
  readonly id: number;
  readonly json: string;
}

/** The animals in the database, by their ids. */
export async function rowsIn(url: string): Promise<readonly PetRow[]> {
  const rows = await query(
    url,
    "SELECT id, convert_from(json, 'UTF8') AS json FROM petstore_pets ORDER BY id",
  );
  return rows.map(({ id, json }) => ({ id: Number(id), json: String(json) }));
}

/** The names of the animals in the database, by their ids. */
export async function namesIn(url: string): Promise<readonly string[]> {
  return (await rowsIn(url)).map(({ json }) => JSON.parse(json).name);
}

/** Expects that the database holds so many animals, and that their ids have no gaps. */
export async function expectStored(url: string, count: number): Promise<void> {
  assertInTurn(
    (await rowsIn(url)).map(({ id }) => id),
    count,
  );
}

/** Asserts that ids have no gaps. */
export function assertInTurn(ids: readonly (number | bigint)[], count = ids.length): void {
  assert.deepEqual(
    ids.map(Number),
    Array.from({ length: count }, (_, index) => index + 1),
    'ids are 1, 2, 3 …',
  );
}

/** The id in a text of an animal. */
export const idIn = (text = ''): number => Number(/^\{"id":(\d+),/.exec(text)?.[1]);

/** The texts of each page. */
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
