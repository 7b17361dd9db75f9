/**
 * Owns the database of a test file: the one that PETSTORE_TEST_POSTGRES_URL names, else a cluster
 * of its own, which is started once somebody asks and removed behind the last test. Everybody gets
 * an empty schema in it.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { after } from 'node:test';
import pg from 'pg';
import { migrations } from '../../dist/postgres/tables.js';
import { isSkipForbidden, testSetting } from '../support/environment.js';
import { Cluster, serverPrograms } from './cluster.js';

const given = testSetting('POSTGRES_URL');
const schemas: string[] = [];
let cluster: Promise<Cluster> | undefined;

after(async () => {
  // With a cluster of our own they go as a whole.
  const dropped = await Promise.allSettled(
    given === undefined
      ? []
      : schemas.map((schema) => query(given, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)),
  );
  const own = await cluster;
  await own?.remove();
  assert.ok(own === undefined || !existsSync(own.folder), 'a cluster leaves nothing');
  for (const outcome of dropped) if (outcome.status === 'rejected') throw outcome.reason;
});

/**
 * Why tests that need a database cannot run here, for `skip`; false where they can. Where no skip
 * is allowed it throws.
 */
export function withoutDatabase(): string | false {
  return given === undefined ? withoutServer() : false;
}

/** The same for tests that start and crash a server of their own. */
export function withoutServer(): string | false {
  if (serverPrograms() !== undefined) return false;
  const mend =
    'no PostgreSQL here: install its server (Debian: apt-get install postgresql), or set PETSTORE_TEST_POSTGRES_URL';
  assert.ok(!isSkipForbidden, mend);
  return mend;
}

/** The URL of the database itself, for whoever administers it. */
export async function adminUrl(): Promise<string> {
  return given ?? ownUrl();
}

/** A server of our own, where whatever is done to it harms nobody. */
export function ownCluster(): Promise<Cluster> {
  return (cluster ??= Cluster.start());
}

export async function ownUrl(): Promise<string> {
  return (await ownCluster()).url;
}

/** The URL of a new schema of the database, without any table. */
export async function newSchema(): Promise<string> {
  return newSchemaAt(await adminUrl());
}

/**
 * The URL of a new schema in a database of the caller's. @param statements What makes its tables;
 * none without.
 */
export async function newSchemaAt(
  url: string,
  statements: readonly string[] = [],
): Promise<string> {
  const schema = `petstore_test_${randomBytes(6).toString('hex')}`;
  await query(
    url,
    [`CREATE SCHEMA ${schema}`, `SET search_path = ${schema}`, ...statements].join(';\n'),
  );
  schemas.push(schema);
  return withOptions(url, `-csearch_path=${schema}`);
}

/** Which tables a storage needs. */
export const tablesVersion = migrations.length;

/**
 * The URL of a new and empty database as a storage needs it, as `migratePostgres` makes it, but in
 * one round trip.
 */
export async function newDatabase(): Promise<string> {
  const version = `INSERT INTO petstore_schema (name, version) VALUES ('petstore', ${tablesVersion})`;
  return newSchemaAt(await adminUrl(), [...migrations, version]);
}

/** The same URL with more settings of the session, in the words of the server's command line. */
export function withOptions(url: string, words: string): string {
  const changed = new URL(url);
  const present = changed.searchParams.get('options');
  changed.searchParams.set('options', present === null ? words : `${present} ${words}`);
  return changed.href;
}

/** A session of its own, whose loss is no error; whoever has it ends it. */
export async function sessionAt(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    query_timeout: 60_000,
  });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/**
 * Runs a statement on a connection of its own; answers its rows. Of several, parted by `;`, it
 * answers nothing.
 */
export async function query(
  url: string,
  text: string,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const client = await sessionAt(url);
  try {
    const { rows = [] } = await client.query(text);
    return rows;
  } finally {
    await client.end();
  }
}
