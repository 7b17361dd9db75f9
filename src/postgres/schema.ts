/** The tables of a database: checks their version, and creates or upgrades them. */
import { PetstoreError } from '../errors.js';
import type { ByteString } from '../json.js';
import type { Log } from '../log.js';
import {
  commandMs,
  connectionsTo,
  overdueStates,
  retry,
  stateOf,
  type Connections,
} from './connections.js';
import type { PostgresPool } from './driver.js';
import { throwUnusable } from './failures.js';
import { identifier } from './sql-text.js';
import {
  locksTable,
  madeBy,
  selectCreators,
  selectMade,
  selectRowSecurity,
  selectSchema,
  statementsIn,
  type Statements,
} from './statements.js';

/** The longest time of a migration step in ms. An index over many pets takes minutes. */
export const longestStepMs = 600_000;

/** The SQLSTATEs of a step that collides with the same step of a concurrent migration. */
const collisions = /^(23505|42P07|42710|XX000|40001|40P01)$/;

/** The version of the tables that this program needs. */
const neededVersion = statementsIn('').migrations.length;

/**
 * The lowest version of a program that can serve the tables of this version: that of the release
 * 1.0.0. Raise it only if an older program would damage what a new migration adds.
 */
const compatibleVersion = 11;

/** The longest wait for a lock in ms, because all other statements wait behind that lock. */
const lockMs = 1_000;

/** The time in ms for which a step that did not get its lock is retried. */
const lockRetryMs = 10_000;

/** The SQLSTATEs of an engine that does not have a step, because it does not compress values. */
const notSupported = /^(0A000|42601)$/;

/** The connections to a database whose tables have the version of this program. */
export interface Database extends Connections {
  /** The statements for its tables. */
  readonly sql: Statements;
}

/** The database has no tables, or those of an earlier version; `migratePostgres` creates them. */
export class MissingTables extends PetstoreError {
  /** The version of the tables, or 0 if the database has no tables. */
  readonly version: number;

  constructor(version: number) {
    const problem =
      version === 0
        ? 'the database has no petstore tables'
        : `the database has tables of version ${version}, and version ${neededVersion} is needed`;
    super('storage_unusable', `${problem}; run \`petstore migrate --storage URL\``);
    this.version = version;
  }
}

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
): Promise<Database> {
  const connections = await connectionsTo(database, statementMs, maxConnections, log);

  try {
    const { name, hasTables } = await findSchema(connections);
    await checkRowSecurity(connections, name);
    const sql = statementsIn(name);
    const version = hasTables ? await readVersion(connections, sql) : 0;
    if (version >= neededVersion) {
      connections.startLogging();
      return { ...connections, sql };
    }

    throw new MissingTables(version);
  } catch (error) {
    await connections.close();
    throwUnusable(error);
  }
}

/**
 * Returns the schema of the tables, or the schema in which `migrate` creates them.
 * @throws DatabaseFailure
 */
async function findSchema(connections: Connections, statementMs?: number) {
  const [row] = await connections.read(selectSchema, [], { statementMs });
  return { name: decode(row?.['name']), hasTables: row?.['tables'] === 'has tables' };
}

/**
 * Checks that the role sees all rows. A policy would hide rows from lists without an error.
 * @throws PetstoreError `storage_unusable` if row-level security applies to the role
 */
async function checkRowSecurity(connections: Connections, schema: string) {
  const rows = await connections.read(selectRowSecurity, [schema]);
  if (rows.length === 0) return;

  const names = rows.map(({ name }) => decode(name)).join(', ');
  throw new PetstoreError(
    'storage_unusable',
    `row-level security may hide rows of ${names} from its user; ` +
      'ALTER TABLE … DISABLE ROW LEVEL SECURITY, or ALTER ROLE … BYPASSRLS',
  );
}

/**
 * Returns the version of the tables.
 * @throws PetstoreError `storage_unusable` if this program cannot serve tables of a later version
 * @throws DatabaseFailure
 */
async function readVersion(connections: Connections, sql: Statements, statementMs?: number) {
  const rows = await connections.read(sql.selectVersion, [], { statementMs });
  const version = Number(rows[0]?.['version'] ?? 0);
  const compatible = Number(rows[0]?.['compatible'] ?? version);
  if (version <= neededVersion || compatible <= neededVersion) return version;

  throw new PetstoreError(
    'storage_unusable',
    `the database has tables of version ${version}, and this program serves none above ` +
      `${neededVersion}; use the later program, or another database`,
  );
}

/** The versions of the tables before and after a migration; 0 for a database without tables. */
export interface Migration {
  /** The version before the migration. */
  readonly from: number;

  /** The version after it. */
  readonly to: number;

  /** Sentences about risks that the administrator should remove. */
  readonly warnings: readonly string[];
}

/**
 * Creates the tables of a database, or upgrades them.
 * @throws PetstoreError `storage_unusable`
 */
export async function migratePostgres(database: string | PostgresPool): Promise<Migration> {
  const connections = await connectionsTo(database, longestStepMs);
  const write: Connections['write'] = (...statement) =>
    retry(() => connections.write(...statement), collides, 20_000);

  try {
    const { name: schema, hasTables } = await findSchema(connections, commandMs);
    if (schema === '')
      throw new PetstoreError(
        'storage_unusable',
        'no schema of search_path exists, or its user may not use it; ' +
          'create it, or GRANT USAGE ON SCHEMA',
      );

    const sql = statementsIn(schema);
    const from = hasTables ? await readVersion(connections, sql, commandMs) : 0;
    if (from < neededVersion) {
      const made = await connections.read(selectMade, [schema], { statementMs: commandMs });
      const isThere = (step: string) => made.some(({ name }) => name === madeBy(step));
      for (const step of sql.migrations)
        if (!isThere(step))
          await (locksTable(step) ? stopCompression(connections, step) : write(step));
      await write(sql.setVersion, [neededVersion, compatibleVersion], { statementMs: commandMs });
    }

    const to = Math.max(from, neededVersion);
    return { from, to, warnings: await findRisks(connections, schema) };
  } catch (error) {
    throwUnusable(error);
  } finally {
    await connections.close();
  }
}

/** True if a step failed because a concurrent migration carries out the same step. */
function collides(error: unknown) {
  return collisions.test(stateOf(error));
}

/**
 * Carries out a step that locks a table. It waits briefly for the lock and tries again, so that
 * reads and adds are carried out between the tries.
 * @throws PetstoreError `storage_unusable` if a long transaction uses the table
 */
async function stopCompression(connections: Connections, step: string) {
  const isLocked = (error: unknown) => overdueStates.test(stateOf(error));

  try {
    const run = () => connections.write(step, [], { statementMs: lockMs });
    await retry(run, (error) => isLocked(error) || collides(error), lockRetryMs);
  } catch (error) {
    if (notSupported.test(stateOf(error))) return;
    if (!isLocked(error)) throw error;
    throw new PetstoreError(
      'storage_unusable',
      `a long transaction uses the table ${madeBy(step)}; end it and run the command again`,
      { cause: error },
    );
  }
}

/**
 * Returns the SQL that `migratePostgres` runs, for an administrator of the database. It is one
 * transaction and can be repeated.
 */
export function migrationSql(schema = 'public'): string {
  const { migrations, setVersion } = statementsIn(schema);
  const version = setVersion
    .replace('$1', `${neededVersion}`)
    .replace('$2', `${compatibleVersion}`);
  const statements = [...migrations, version];
  return [
    `-- The tables of petstore, version ${neededVersion}, in the schema ${schema}.`,
    'BEGIN;',
    ...statements.map((statement) => `${statement};`),
    'COMMIT;',
  ].join('\n');
}

/** Returns a warning if other roles may create objects in the schema of the tables. */
async function findRisks(connections: Connections, schema: string) {
  const rows = await connections.read(selectCreators, [schema], { statementMs: commandMs });
  const roles = rows.map(({ name }) => decode(name));
  if (roles.length === 0) return [];

  const name = shortIdentifier(schema);
  const grantees = roles.map((role) => (role === 'PUBLIC' ? role : shortIdentifier(role)));
  return [
    `other roles may create objects in schema ${name}: ${roles.join(', ')}; ` +
      `REVOKE CREATE ON SCHEMA ${name} FROM ${grantees.join(', ')}`,
  ];
}

/** Returns an identifier for a message, without quotes if it needs none. */
function shortIdentifier(name: string) {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : identifier(name);
}

/** Returns a column of text as a string. */
function decode(column: ByteString | null | undefined) {
  return Buffer.from(column ?? '', 'latin1').toString();
}
