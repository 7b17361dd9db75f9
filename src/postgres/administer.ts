/** What a command or a start does to a database: waits for it, makes its tables, copies into it. */
import { performance } from 'node:perf_hooks';
import { importedStart, jsonAfterId, parsePet, petJson, RecordNames } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import type { Log } from '../log.js';
import { filterOf, type PetDraft } from '../pet.js';
import type { ImportSource, ImportTarget, StoredText, TextTarget } from '../storage.js';
import {
  causeOf,
  connectionsTo,
  copyingMs,
  DatabaseFailure,
  retry,
  servingMs,
  stateOf,
  type Connections,
} from './connections.js';
import type { PostgresPool } from './driver.js';
import { readLastId } from './postgres-records.js';
import * as sql from './tables.js';
import { columnsOf } from './writer.js';

/** How long a step of a migration may take: an index over many animals takes minutes. */
const longestStepMs = 600_000;

/** SQLSTATEs of steps that collide with those of another's migration. */
const collisions = /^(23505|42P07|42710|XX000|40001|40P01)$/;

/** The version of the tables that this program needs. */
const neededVersion = sql.migrations.length;

/**
 * Opens a database, again and again while it is away, starting or full; the log hears of it.
 * @throws What waiting cannot mend, at once.
 */
export function untilThere<Value>(open: () => Promise<Value>, log: Log): Promise<Value> {
  let nextLineAt = 0;

  return retry(open, (error) => {
    if (!temporary.test(summaryOf(error))) return false;

    if (performance.now() >= nextLineAt) {
      nextLineAt = performance.now() + 5_000;
      log('warn', 'waiting for the database', { error: reasonOf(causeOf(error)) });
    }
    return true;
  });
}

/** The database has not the tables of this version: `migratePostgres` makes them. */
export class MissingTables extends PetstoreError {}

/**
 * Connects to a database that has the tables.
 * @throws MissingTables; else PetstoreError `storage_unusable`.
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
 * The version of a database's tables; 0 where there are none.
 * @throws PetstoreError `storage_unusable` for the tables of a later program; DatabaseFailure.
 */
async function readVersion(connections: Connections, statementMs?: number) {
  const reading = connections.read(sql.selectVersion, [], { statementMs });
  const rows = await reading.catch((error: unknown) => {
    // There is no such table, or no such schema.
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

/** What a migration has done; 0 is a database without tables. */
export interface Migration {
  /** The version that was there. */
  readonly from: number;

  /** The version that is there now. */
  readonly to: number;
}

/** Makes the tables of a database, or brings them up to date. @throws PetstoreError */
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

/**
 * The names of the records that plugins keep beside the animals.
 * @throws PetstoreError `storage_unusable`
 */
export async function postgresRecordNames(
  database: string | PostgresPool,
): Promise<readonly string[]> {
  const connections = await connectToTables(database, servingMs);
  const rows = await connections.read(sql.selectRecordNames).finally(connections.close);
  return rows.map(({ name }) => name ?? '');
}

/**
 * Opens a database to copy animals into it, or the records of a name.
 * @throws PetstoreError as `postgresStorage`
 */
export async function postgresTarget(url: string, records?: string): Promise<TextTarget> {
  if (records !== undefined) new RecordNames().take(records);
  const table = records === undefined ? sql.petTable : sql.recordTable(records);

  const connections = await connectToTables(url, copyingMs);
  let lastId: bigint | undefined;

  async function adopt(texts: readonly StoredText[]) {
    const [first, newest] = [texts.at(0), texts.at(-1)];
    if (first === undefined || newest === undefined) return;

    lastId ??= await readLastId(connections, table);
    if (first.id <= lastId)
      throw new PetstoreError(
        'storage_unusable',
        `the database gave ids up to ${lastId}; ${first.id} is too low`,
      );

    const rows = await connections.write(table.adoptBatch, adoptValues(table, lastId, texts));
    if (rows.length === 0)
      throw new PetstoreError(
        'storage_in_use',
        'somebody else adds to the database; copy again once nobody does',
      );
    lastId = newest.id;
  }

  const refuse = (error: unknown) =>
    throwUnusable(error, 'see to it, and run it again: it goes on where it was');

  return { adopt: (texts) => adopt(texts).catch(refuse), close: connections.close };
}

/** The values of `adoptBatch` for texts of ascending ids, all above the last id. */
function adoptValues(table: sql.Table, lastId: bigint, texts: readonly StoredText[]) {
  const statusOf = ({ json }: StoredText) =>
    table === sql.petTable ? (parsePet(json).status ?? '') : '';

  return [
    lastId,
    texts.at(-1)?.id ?? lastId,
    texts.map(({ id }) => id),
    texts.map(statusOf),
    texts.map(({ json }) => Buffer.from(json, 'latin1')),
  ];
}

/**
 * Opens a database to import one source, told by its SHA-256 in lowercase hexadecimal digits or by
 * more (F11).
 * Servers may be at work on it, and others may import the same source.
 * @param log Hears that the database is waited for.
 * @throws PetstoreError as `postgresStorage`
 */
export async function postgresImport(
  url: string,
  source: string | ImportSource,
  log: Log,
): Promise<ImportTarget> {
  const whole = typeof source === 'string' ? { digest: source } : source;
  const connections = await connectToTables(url, copyingMs);

  const readPlace = async (least = 0) => {
    const [row] = await connections.write(sql.selectPlace, [whole.digest, least]);
    return Number(row?.['place']);
  };

  const readStart = async () => {
    const rows = await connections.read(sql.selectImports);
    return importedStart(
      whole,
      new Map(rows.map(({ source: name, place: at }) => [name ?? '', Number(at)])),
    );
  };

  // An unknown outcome is waited for: at a place that was left, the statement does nothing.
  const known = (work: () => Promise<number>) => untilThere(work, log).catch(throwUnusable);

  const begun = await known(readStart);
  const start = await known(() => readPlace(begun));
  let place = start;

  return {
    start,
    add: async (drafts, startDigest) => {
      const records = drafts.map((draft) => ({
        indexed: filterOf(draft),
        jsonAfterId: jsonAfterId(draft),
      }));
      const names = startDigest === undefined ? [whole.digest] : [whole.digest, startDigest];
      const { counter } = sql.petTable;
      const columns = columnsOf(records);
      const values = [whole.digest, place, records.length, counter, ...columns, names];

      place = await known(async () => {
        const [row] = await connections.write(sql.importBatch, values);
        return row === undefined ? readPlace() : Number(row['place']);
      });
      return place;
    },
    close: connections.close,
  };
}

/**
 * Adds animals to a database that never had one, all in one step; false where it has.
 * @throws PetstoreError as `postgresStorage`
 */
export async function seedPostgres(
  url: string,
  drafts: readonly PetDraft[],
  log: Log,
): Promise<boolean> {
  const texts = drafts.map((draft, index) => {
    const id = BigInt(index + 1);
    return { id, json: petJson(id, draft) };
  });
  const values = adoptValues(sql.petTable, 0n, texts);

  const connections = await connectToTables(url, longestStepMs);
  const adopt = () => connections.write(sql.petTable.adoptBatch, values);
  const rows = await untilThere(adopt, log).catch(throwUnusable).finally(connections.close);
  return rows.length > 0;
}

/**
 * What waiting may mend, by its summary: a database that starts, ends, is full or away (the last
 * words: it has no process left, or was asked for TLS), or has no Unix socket yet; and a machine of
 * ours without a port, file or buffer left.
 */
const temporary = new RegExp(
  '^(08|40|53|55P03|57|' +
    'E(CONN|TIMEDOUT|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|PIPE|AI_AGAIN|NOTFOUND|' +
    'NOENT connect |AGAIN|MFILE|NFILE|ADDRNOTAVAIL|NOBUFS)|' +
    '\\S* (Connection terminated|timeout exceeded when trying to connect|' +
    'There was an error establishing an SSL))',
);

/** A failure in one line: its SQLSTATE or code, if any, and its message. */
function summaryOf(thrown: unknown) {
  return `${stateOf(thrown)} ${reasonOf(causeOf(thrown))}`;
}

/** Summaries of failures, and what an operator can do about each. */
const mends = [
  [/^ECONNREFUSED /, 'start it, or name another address'],
  [/^ENOTFOUND /, 'there is no such host: name another'],
  [/^3D000 /, 'there is no such database: create it, or name another'],
  [/^28(000|P01) /, 'see to its user and password'],
  // From PostgreSQL 15 on others than the owner of the database need a grant.
  [
    /^42501 .*for schema/,
    'migrate as the owner of the database, or GRANT CREATE ON SCHEMA public to its user',
  ],
  [/^42501 /, 'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO its user'],
  [/^53300 /, 'it has no connection left: raise max_connections'],
  [
    /password must be a/,
    'it wants a password: put one into its URL, postgres://user:password@host/name',
  ],
  [/does not support SSL/, 'it speaks no TLS: write sslmode=disable into its URL'],
  [
    /certificate|altnames/i,
    'name its authority in the URL by sslrootcert=FILE, or trust any by sslmode=no-verify',
  ],
] as const;

/** @throws PetstoreError `storage_unusable`, which says in one line what to do. */
export function throwUnusable(thrown: unknown, otherMend = 'see to it, or name another'): never {
  if (thrown instanceof PetstoreError && !(thrown instanceof DatabaseFailure)) throw thrown;

  const cause = causeOf(thrown);
  const mend = mends.find(([pattern]) => pattern.test(summaryOf(thrown)))?.[1] ?? otherMend;

  throw new PetstoreError(
    'storage_unusable',
    `the database cannot be used: ${mend} (${reasonOf(cause)})`,
    { cause },
  );
}
