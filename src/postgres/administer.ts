/** What a command or a start does to a database: waits for it, makes its tables, copies to it. */
import { RecordNames, parsePet, petJson, petRest } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import type { Log } from '../log.js';
import type { PetDraft } from '../pet.js';
import type { ImportTarget, StoredText, TextTarget } from '../storage.js';
import {
  retry,
  causeOf,
  connectionsTo,
  copyingMs,
  DatabaseFailure,
  servingMs,
  stateOf,
  type Connections,
} from './connections.js';
import type { PostgresPool } from './driver.js';
import * as sql from './tables.js';

/** An index over many animals takes minutes. */
const longestStepMs = 600_000;
/** Where two migrate at once. */
const collisions = ['23505', '42P07', '42710', 'XX000', '40001', '40P01'];
const neededVersion = sql.migrations.length;

/**
 * Opens a database; while that is away, starting or full, again and again. @throws at once what
 * waiting cannot mend
 */
export function untilThere<Value>(open: () => Promise<Value>, log: Log): Promise<Value> {
  let tellAt = 0;
  return retry(open, (error) => {
    if (!temporary.test(toldBy(error))) return false;
    if (performance.now() >= tellAt) {
      tellAt = performance.now() + 5_000;
      log('warn', 'waiting for the database', { error: reasonOf(causeOf(error)) });
    }
    return true;
  });
}

/** Refuses to open a database without the tables of this version: `migratePostgres` makes them. */
export class MissingTables extends PetstoreError {}

/** @throws MissingTables; else PetstoreError `storage_unusable` */
export async function connectToTables(
  ...to: Parameters<typeof connectionsTo>
): Promise<Connections> {
  const connections = await connectionsTo(...to);
  try {
    const version = await versionIn(connections);
    if (version === neededVersion) return connections;
    const found = `the database has a petstore of version ${version}, where ${neededVersion} is needed`;
    throw new MissingTables(
      'storage_unusable',
      `${found}; make its tables with \`petstore migrate --storage URL\``,
    );
  } catch (error) {
    await connections.close();
    throwUnusable(error);
  }
}

/** @throws PetstoreError `storage_unusable` for a later program's; DatabaseFailure */
async function versionIn(connections: Connections, statementMs?: number): Promise<number> {
  const rows = await connections
    .read(sql.selectVersion, [], { statementMs })
    .catch((error: unknown) => {
      // No such table or schema.
      if (['42P01', '3F000'].includes(stateOf(error))) return [];
      throw error;
    });
  const version = Number(rows[0]?.['version'] ?? 0);
  if (version <= neededVersion) return version;
  const problem = `has a petstore of version ${version}, and this one knows none above ${neededVersion}`;
  throw new PetstoreError(
    'storage_unusable',
    `the database ${problem}; use the later program, or another database`,
  );
}

/**
 * Makes the tables, or brings them up to date; answers the versions, 0 for none. @throws
 * PetstoreError
 */
export async function migratePostgres(
  database: string | PostgresPool,
): Promise<Readonly<Record<'from' | 'to', number>>> {
  const connections = await connectionsTo(database, longestStepMs);
  try {
    const from = await versionIn(connections, servingMs);
    const run = (step: () => Promise<unknown>) =>
      retry(step, (error) => collisions.includes(stateOf(error)), 20_000);
    if (from < neededVersion) {
      for (const migration of sql.migrations) await run(() => connections.write(migration));
      await run(() =>
        connections.write(sql.setVersion, [neededVersion], { statementMs: servingMs }),
      );
    }
    return { from, to: neededVersion };
  } catch (error) {
    throwUnusable(error);
  } finally {
    await connections.close();
  }
}

/**
 * The names of the records that plugins keep beside the animals. @throws PetstoreError
 * `storage_unusable`
 */
export async function postgresRecordNames(
  database: string | PostgresPool,
): Promise<readonly string[]> {
  const connections = await connectToTables(database, servingMs);
  const rows = await connections.read(sql.selectRecordNames).finally(() => connections.close());
  return rows.map(({ name }) => name ?? '');
}

/**
 * Opens a database to copy animals into it, or the records of a name. @throws PetstoreError as
 * `postgresStorage`
 */
export async function postgresTarget(url: string, records?: string): Promise<TextTarget> {
  if (records !== undefined) new RecordNames().take(records);
  const table = records === undefined ? sql.petTable : sql.recordTable(records);
  const connections = await connectToTables(url, copyingMs);
  let lastId: bigint | undefined;

  async function adopt(texts: readonly StoredText[]) {
    const [first, newest] = [texts.at(0), texts.at(-1)];
    if (first === undefined || newest === undefined) return;
    lastId ??= BigInt(
      (await connections.read(sql.selectCounter, [table.counter]))[0]?.['last_id'] ?? 0,
    );
    if (first.id <= lastId)
      throw new PetstoreError(
        'storage_unusable',
        `the database gave ids up to ${lastId}; ${first.id} is too low`,
      );
    const statuses = texts.map(({ json }) =>
      table === sql.petTable ? (parsePet(json).status ?? '') : '',
    );
    const jsons = texts.map(({ json }) => Buffer.from(json, 'latin1'));
    const values = [lastId, newest.id, texts.map(({ id }) => id), statuses, jsons];
    if ((await connections.write(table.adoptBatch, values)).length === 0)
      throw new PetstoreError(
        'storage_in_use',
        'somebody else adds to the database; copy again once nobody does',
      );
    lastId = newest.id;
  }

  const refuse = (error: unknown) =>
    throwUnusable(error, 'see to it, and run it again: it goes on where it was');
  return { adopt: (texts) => adopt(texts).catch(refuse), close: () => connections.close() };
}

/**
 * Opens a database to import one source, told by its SHA-256 in small hexadecimal digits (F11);
 * servers may be at work on it, and others may import the same source. `log` hears what is waited
 * for. @throws as `postgresStorage`
 */
export async function postgresImport(url: string, source: string, log: Log): Promise<ImportTarget> {
  const connections = await connectToTables(url, copyingMs);
  const placeNow = async () =>
    Number((await connections.write(sql.selectPlace, [source]))[0]?.['place']);
  // What nobody knows of is asked for again: at a place that was left, the statement does nothing.
  const known = (ask: () => Promise<number>) => untilThere(ask, log).catch(throwUnusable);
  let place = await known(placeNow);

  async function add(drafts: readonly PetDraft[]): Promise<number> {
    const statuses = drafts.map(({ status }) => status ?? '');
    const rests = drafts.map((draft) => Buffer.from(petRest(draft), 'latin1'));
    const values = [source, place, drafts.length, sql.petTable.counter, statuses, rests];
    return known(async () => {
      const [row] = await connections.write(sql.importBatch, values);
      return row === undefined ? placeNow() : Number(row['place']);
    });
  }

  return {
    start: place,
    add: async (drafts) => (place = await add(drafts)),
    close: () => connections.close(),
  };
}

/**
 * Adds animals to a database that never had one, all in one step; false where it has. @throws as
 * `postgresStorage`
 */
export async function seedPostgres(
  url: string,
  drafts: readonly PetDraft[],
  log: Log,
): Promise<boolean> {
  const connections = await connectToTables(url, longestStepMs);
  const ids = drafts.map((_, index) => index + 1);
  const jsons = drafts.map((draft, index) =>
    Buffer.from(petJson(BigInt(index + 1), draft), 'latin1'),
  );
  const values = [0, drafts.length, ids, drafts.map(({ status }) => status ?? ''), jsons];
  const adopt = () => connections.write(sql.petTable.adoptBatch, values);
  const rows = await untilThere(adopt, log)
    .catch(throwUnusable)
    .finally(() => connections.close());
  return rows.length > 0;
}

/**
 * What waiting may mend, as a code and a message: a database that starts, ends, is full or away
 * (the last words: has no process left, asked for TLS), or has no Unix socket yet, and a machine of
 * ours without a port, file or buffer left.
 */
const temporary = new RegExp(
  '^(08|40|53|55P03|57|E(CONN|TIMEDOUT|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|PIPE|AI_AGAIN|NOTFOUND|' +
    'NOENT connect |AGAIN|MFILE|NFILE|ADDRNOTAVAIL|NOBUFS)|' +
    '\\S* (Connection terminated|timeout exceeded when trying to connect|There was an error establishing an SSL))',
);

function toldBy(thrown: unknown): string {
  return `${stateOf(thrown)} ${reasonOf(causeOf(thrown))}`;
}

const mends: readonly (readonly [RegExp, string])[] = [
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
];

/** @throws PetstoreError `storage_unusable` in one line */
export function throwUnusable(thrown: unknown, otherMend = 'see to it, or name another'): never {
  if (thrown instanceof PetstoreError && !(thrown instanceof DatabaseFailure)) throw thrown;
  const cause = causeOf(thrown);
  const mend = mends.find(([told]) => told.test(toldBy(thrown)))?.[1] ?? otherMend;
  throw new PetstoreError(
    'storage_unusable',
    `the database cannot be used: ${mend} (${reasonOf(cause)})`,
    { cause },
  );
}
