/** Owns what is done to a database now and then, on connections of its own: making its tables, copying to it. Serves nobody. */
import type { TextTarget } from '../copy.js';
import { RecordNames } from '../record-set.js';
import { Connections } from './connections.js';
import { unusableDatabase } from './failure.js';
import { copyingLimits, poolFor, servingLimits, type PostgresPool, type TimeLimits } from './pool.js';
import { checkSchema, longestStepMs, neededVersion, schemaVersion, takeSteps } from './schema.js';
import { addCounter, kindPrefix, petTable, recordTable, selectCounters } from './table.js';
import { openTarget } from './target.js';

/** The database may be at work on a step for long; whatever else is asked is answered as to a server, or it is not there. */
const migratingLimits: TimeLimits = { ...servingLimits, statementMs: longestStepMs };

/**
 * Makes the petstore's tables in a database, or brings them up to date; a second time changes nothing. Answers the
 * versions of the schema before and after, 0 for none.
 * @throws PetstoreError `storage_unusable`
 */
export async function migratePostgres(database: string | PostgresPool): Promise<{ readonly from: number; readonly to: number }> {
  return withConnections(database, async (connections) => {
    const from = await takeSteps(connections).catch((error: unknown) => Promise.reject(unusableDatabase(error, 'migrating')));
    return { from, to: Math.max(from, neededVersion) };
  });
}

/**
 * Whether a database has the tables that `postgresStorage` needs.
 * @throws PetstoreError `storage_unusable` where it cannot be asked.
 */
export async function isMigrated(database: string | PostgresPool): Promise<boolean> {
  return withConnections(database, async (connections) => (await schemaVersion(connections)) >= neededVersion, servingLimits);
}

/** The names of the records that plugins keep beside the animals. @throws PetstoreError `storage_unusable` */
export async function postgresRecordNames(database: string | PostgresPool): Promise<readonly string[]> {
  const rows = await withConnections(database, (connections) => connections.read(selectCounters), servingLimits);
  return rows.flatMap(({ name }) => (name?.startsWith(kindPrefix) ? [name.slice(kindPrefix.length)] : []));
}

/**
 * Opens a database with the petstore's tables to copy animals into it, or the records of a name; see `copyPets`.
 * @throws PetstoreError as `postgresStorage`.
 */
export async function postgresTarget(url: string, records?: string): Promise<TextTarget> {
  const connections = new Connections(await poolFor(url, 1, copyingLimits), copyingLimits, () => undefined);
  const explained = (error: unknown): never => {
    throw unusableDatabase(error);
  };
  try {
    await checkSchema(connections);
    if (records !== undefined) {
      new RecordNames().take(records);
      await connections.ask(addCounter, [recordTable(records).counter]);
    }
    const { adopt } = await openTarget(connections, records === undefined ? petTable : recordTable(records));
    return { adopt: (texts) => adopt(texts).catch(explained), close: () => connections.close(true) };
  } catch (error) {
    await connections.close(true);
    return explained(error);
  }
}

async function withConnections<Value>(
  database: string | PostgresPool,
  work: (connections: Connections) => Promise<Value>,
  limits = migratingLimits,
): Promise<Value> {
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, 1, limits) : database;
  const connections = new Connections(pool, limits, () => undefined);
  try {
    return await work(connections);
  } catch (error) {
    throw unusableDatabase(error);
  } finally {
    await connections.close(isOurs);
  }
}
