/** The tables of a database: checks their version, and creates or upgrades them. */
import { PetstoreError } from '../errors.js';
import type { Log } from '../log.js';
import { connectionsTo, retry, servingMs, stateOf, type Connections } from './connections.js';
import type { PostgresPool } from './driver.js';
import { throwUnusable } from './failures.js';
import * as sql from './statements.js';

/** The longest time of a migration step in ms. An index over many pets takes minutes. */
export const longestStepMs = 600_000;

/** The SQLSTATEs of a step that collides with the same step of a concurrent migration. */
const collisions = /^(23505|42P07|42710|XX000|40001|40P01)$/;

/** The version of the tables that this program needs. */
const neededVersion = sql.migrations.length;

/** The database has no tables, or those of an earlier version; `migratePostgres` creates them. */
export class MissingTables extends PetstoreError {}

/**
 * Connects to a database and checks the version of its tables.
 * @param statementMs The longest time of a statement, in ms.
 * @throws MissingTables
 * @throws PetstoreError `storage_unusable` if the database cannot be used
 */
export async function connectToTables(
  database: string | PostgresPool,
  statementMs: number,
  maxConnections?: number,
  log?: Log,
): Promise<Connections> {
  const connections = await connectionsTo(database, statementMs, maxConnections, log);

  try {
    const version = await readVersion(connections);
    if (version === neededVersion) return connections;

    throw new MissingTables(
      'storage_unusable',
      `the database has a petstore of version ${version}, where ${neededVersion} is needed; ` +
        'make its tables with `petstore migrate --storage URL`',
    );
  } catch (error) {
    await connections.close();
    throwUnusable(error);
  }
}

/**
 * Returns the version of the tables, or 0 if there are none.
 * @throws PetstoreError `storage_unusable` if a later program made the tables
 * @throws DatabaseFailure
 */
async function readVersion(connections: Connections, statementMs?: number) {
  const reading = connections.read(sql.selectVersion, [], { statementMs });
  const rows = await reading.catch((error: unknown) => {
    // No such table, or no such schema.
    if (/^(42P01|3F000)$/.test(stateOf(error))) return [];
    throw error;
  });

  const version = Number(rows[0]?.['version'] ?? 0);
  if (version <= neededVersion) return version;

  throw new PetstoreError(
    'storage_unusable',
    `the database has a petstore of version ${version}, and this one knows none above ` +
      `${neededVersion}; use the later program, or another database`,
  );
}

/** The versions of the tables around a migration; 0 stands for a database without tables. */
export interface Migration {
  /** The version before the migration. */
  readonly from: number;

  /** The version after it. */
  readonly to: number;
}

/**
 * Creates the tables of a database, or upgrades them.
 * @throws PetstoreError `storage_unusable`
 */
export async function migratePostgres(database: string | PostgresPool): Promise<Migration> {
  const connections = await connectionsTo(database, longestStepMs);
  const collides = (error: unknown) => collisions.test(stateOf(error));
  const write: Connections['write'] = (...statement) =>
    retry(() => connections.write(...statement), collides, 20_000);

  try {
    const from = await readVersion(connections, servingMs);
    if (from < neededVersion) {
      const indexes = (await connections.read(sql.selectIndexes)).map(({ name }) => name);
      const isThere = (step: string) => indexes.some((name) => name === sql.indexMadeBy(step));
      for (const step of sql.migrations) if (!isThere(step)) await write(step);
      await write(sql.setVersion, [neededVersion], { statementMs: servingMs });
    }

    return { from, to: neededVersion };
  } catch (error) {
    throwUnusable(error);
  } finally {
    await connections.close();
  }
}
