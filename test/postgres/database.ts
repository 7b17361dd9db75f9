/**
 * The database of a test file. It is the database that PETSTORE_TEST_POSTGRES_URL names, or a
 * cluster that is started at the first use and removed after the last test. Each test gets an empty
 * schema.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { after } from 'node:test';
import pg from 'pg';
import { migrationSql } from '../../dist/postgres/index.js';
import { statementsIn } from '../../dist/postgres/statements.js';
import { isSkipForbidden, testSetting } from '../support/environment.js';
import { Cluster, serverPrograms } from './cluster.js';

const given = testSetting('POSTGRES_URL');
const schemas: string[] = [];
let cluster: Promise<Cluster> | undefined;

after(async () => {
  // The schemas of an own cluster are removed with it.
  const dropped = await Promise.allSettled(
    given === undefined
      ? []
      : schemas.map((schema) => query(given, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)),
  );
  const own = await cluster;
  await own?.remove();
  assert.ok(own === undefined || !existsSync(own.folder), 'the folder of the cluster is removed');
  for (const outcome of dropped) if (outcome.status === 'rejected') throw outcome.reason;
});

/**
 * Returns why tests that need a database cannot run here, for `skip`; false if they can.
 * @throws AssertionError if tests must not be skipped
 */
export function withoutDatabase(): string | false {
  return given === undefined ? withoutServer() : false;
}

/** As `withoutDatabase`, for tests that start and crash a cluster of their own. */
export function withoutServer(): string | false {
  if (serverPrograms() !== undefined) return false;
  const reason =
    'no PostgreSQL here: install its server (Debian: apt-get install postgresql), or set PETSTORE_TEST_POSTGRES_URL or PETSTORE_TEST_POSTGRES_PROGRAMS';
  assert.ok(!isSkipForbidden, reason);
  return reason;
}

/** Returns the URL of the administrator of the database. */
export async function adminUrl(): Promise<string> {
  return given ?? ownUrl();
}

/** Returns the cluster of this file, which tests may crash and reconfigure. */
export function ownCluster(): Promise<Cluster> {
  return (cluster ??= Cluster.start());
}

export async function ownUrl(): Promise<string> {
  return (await ownCluster()).url;
}

/** Returns the URL of a new schema without tables. */
export async function newSchema(): Promise<string> {
  return newSchemaAt(await adminUrl());
}

/**
 * Returns the URL of a new schema in the database of `url`.
 * @param statementsOf Returns the statements that create the tables of the schema.
 */
export async function newSchemaAt(
  url: string,
  statementsOf: (schema: string) => readonly string[] = () => [],
): Promise<string> {
  const schema = `petstore_test_${randomBytes(6).toString('hex')}`;
  await query(url, [`CREATE SCHEMA ${schema}`, ...statementsOf(schema)].join(';\n'));
  schemas.push(schema);
  return withOptions(url, `-csearch_path=${schema}`);
}

/** The version of the tables that a storage needs. */
export const tablesVersion = statementsIn('').migrations.length;

/**
 * Returns the URL of a new schema with empty tables, as `migratePostgres` creates them, but in one
 * round trip.
 */
export async function newDatabase(): Promise<string> {
  return newSchemaAt(await adminUrl(), (schema) => [migrationSql(schema)]);
}

/** Adds settings of the session to a URL, in the form of the server's command line. */
export function withOptions(url: string, words: string): string {
  const changed = new URL(url);
  const present = changed.searchParams.get('options');
  changed.searchParams.set('options', present === null ? words : `${present} ${words}`);
  return changed.href;
}

/** Opens a session whose loss is not an error. The caller ends it. */
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
 * Runs a statement on a connection of its own and returns its rows. For several statements,
 * separated by `;`, it returns no rows.
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
