/** What a command or a start does to a database: waits for it, makes its tables, copies to it. */
import { setTimeout as wait } from 'node:timers/promises';
import { PetstoreError, reasonOf, type Log } from '../errors.js';
import { parsePet } from '../pet.js';
import type { StoredText, TextTarget } from '../storage.js';
import { RecordNames } from '../memory/index.js';
import {
  again,
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

/** How often a database that is away is asked, and the log told. */
const askAgainMs = 500;
const tellMs = 5_000;
const copyAgainMs = 30_000;
/** An index over many animals takes minutes. */
const longestStepMs = 600_000;
/** What two may be told that migrate at once, and how often each tries again. */
const collisions = ['23505', '42P07', '42710', 'XX000', '40001', '40P01'];
const maxCollisions = 20;
const neededVersion = sql.migrations.length;

/**
 * Does what opens a database, again and again while that is away, starting or full, and says so each 5 s.
 * @throws what `open` throws, at once, where waiting cannot mend it.
 */
export async function untilThere<Value>(open: () => Promise<Value>, log: Log): Promise<Value> {
  for (let toldAt = Number.NEGATIVE_INFINITY; ; await wait(askAgainMs)) {
    try {
      return await open();
    } catch (error) {
      if (!isTemporary(error)) throw error;
      if (performance.now() - toldAt < tellMs) continue;
      toldAt = performance.now();
      log('warn', 'waiting for the database', { error: reasonOf(error) });
    }
  }
}

/** Refuses to open a database without the tables of this version: `migratePostgres` makes them. */
export class MissingTables extends PetstoreError {}

/** Connects to a database that has the tables. @throws MissingTables; else PetstoreError `storage_unusable` */
export async function connectToTables(...to: Parameters<typeof connectionsTo>): Promise<Connections> {
  const connections = await connectionsTo(...to);
  try {
    const version = await versionIn(connections);
    if (version === neededVersion) return connections;
    const found =
      version === 0 ? 'no petstore in it' : `a petstore of version ${version}, where ${neededVersion} is needed`;
    const mend = 'make its tables with `petstore migrate --storage URL`';
    throw new MissingTables('storage_unusable', `the database has ${found}; ${mend}`);
  } catch (error) {
    await connections.close();
    throwUnusable(error);
  }
}

/** @throws PetstoreError `storage_unusable` for a later program's; DatabaseFailure */
async function versionIn(connections: Connections, statementMs?: number): Promise<number> {
  const rows = await connections.read(sql.selectVersion, [], { statementMs }).catch((error: unknown) => {
    // No such table or schema.
    if (['42P01', '3F000'].includes(stateOf(error))) return [];
    throw error;
  });
  const version = Number(rows[0]?.['version'] ?? 0);
  if (version <= neededVersion) return version;
  const problem = `has a petstore of version ${version}, and this one knows none above ${neededVersion}`;
  throw new PetstoreError('storage_unusable', `the database ${problem}; use the later program, or another database`);
}

/**
 * Makes the petstore's tables in a database, or brings them up to date; a second time changes nothing, and several may
 * do so at once. Answers the versions of the schema before and after, 0 for none.
 * @throws PetstoreError `storage_unusable`
 */
export async function migratePostgres(
  database: string | PostgresPool,
): Promise<{ readonly from: number; readonly to: number }> {
  const connections = await connectionsTo(database, longestStepMs);
  try {
    const from = await versionIn(connections, servingMs);
    let version = from;
    for (const migration of sql.migrations.slice(from)) await migrate(connections, migration, ++version);
    return { from, to: neededVersion };
  } catch (error) {
    throwUnusable(error, migratingMends);
  } finally {
    await connections.close();
  }
}

async function migrate(connections: Connections, migration: string, version: number) {
  let count = 0;
  const work = async () => {
    await connections.ask(migration);
    await connections.ask(sql.setVersion, [version], { statementMs: servingMs });
  };
  await again(work, (error) => collisions.includes(stateOf(error)) && ++count <= maxCollisions);
}

/** The names of the records that plugins keep beside the animals. @throws PetstoreError `storage_unusable` */
export async function postgresRecordNames(database: string | PostgresPool): Promise<readonly string[]> {
  const connections = await connectionsTo(database, servingMs);
  try {
    const rows = await connections.read(sql.selectCounters);
    return rows.flatMap(({ name }) => (name?.startsWith(sql.kindPrefix) ? [name.slice(sql.kindPrefix.length)] : []));
  } catch (error) {
    throwUnusable(error);
  } finally {
    await connections.close();
  }
}

/**
 * Opens a database to copy animals into it, or the records of a name; see `copyPets`.
 * @throws PetstoreError as `postgresStorage`
 */
export async function postgresTarget(url: string, records?: string): Promise<TextTarget> {
  const connections = await connectToTables(url, copyingMs);
  try {
    if (records !== undefined) new RecordNames().take(records);
    const table = records === undefined ? sql.petTable : sql.recordTable(records);
    if (table !== sql.petTable) await connections.ask(sql.addCounter, [table.counter]);
    let { id: lastId } = await lastIn(connections, table);
    const adopt = async (texts: readonly StoredText[]) => {
      const [first, newest] = [texts.at(0), texts.at(-1)];
      if (first === undefined || newest === undefined) return;
      if (first.id <= lastId) {
        const problem = `the database has given ids up to ${lastId}, which ${first.id} cannot follow`;
        throw new PetstoreError('storage_unusable', problem);
      }
      const columns = [
        texts.map(({ id }) => id),
        texts.map(({ json }) => (table === sql.petTable ? (parsePet(json).status ?? '') : '')),
        texts.map(({ json }) => Buffer.from(json, 'latin1')),
      ];
      const [taken] = await untilKnown(() => connections.ask(table.adoptBatch, [lastId, newest.id, ...columns]));
      // No row where an earlier try, whose answer was lost, has added these texts, or somebody else has added others.
      const last = taken === undefined ? await untilKnown(() => lastIn(connections, table)) : newest;
      if (last.id !== newest.id || last.json !== newest.json)
        throw new PetstoreError('storage_in_use', 'somebody else adds to the database that is copied to');
      lastId = newest.id;
    };
    return { adopt: (texts) => adopt(texts).catch(throwUnusable), close: () => connections.close() };
  } catch (error) {
    await connections.close();
    throwUnusable(error);
  }
}

async function lastIn(connections: Connections, { selectLast }: sql.Table) {
  const [row] = await connections.read(selectLast);
  return { id: BigInt(row?.['last_id'] ?? 0), json: sql.textOfHex(row?.['json'] ?? '') };
}

/** Asks until it is known what became of a statement that may be carried out again. */
function untilKnown<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  const mayPass = (error: unknown) => error instanceof DatabaseFailure && (error.isUnknown || isTemporary(error));
  return again(ask, mayPass, copyAgainMs);
}

/**
 * What waiting may mend, as a code and a message: a database that starts, ends, is full or away (the last words: has no
 * process left, asked for TLS), or whose Unix socket is not there yet (but not any other file), and a machine of ours
 * without a port, file or buffer left.
 */
const temporary = new RegExp(
  '^(08|40|53|55P03|57|E(CONN|TIMEDOUT|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|PIPE|AI_AGAIN|NOTFOUND|' +
    'NOENT connect |AGAIN|MFILE|NFILE|ADDRNOTAVAIL|NOBUFS)|' +
    '\\S* (Connection terminated|timeout exceeded when trying to connect|There was an error establishing an SSL))',
);

function isTemporary(thrown: unknown): boolean {
  const cause = causeOf(thrown);
  return temporary.test(`${stateOf(cause)} ${reasonOf(cause)}`);
}

const mends: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED /, 'start it, or name another address'],
  [/^ENOTFOUND /, 'there is no such host: name another'],
  [/^3D000 /, 'there is no such database: create it, or name another'],
  [/^28(000|P01) /, 'see to its user and password'],
  [/^42501 /, 'its user needs the right to SELECT, INSERT and UPDATE the tables petstore_*'],
  [/^53300 /, 'it has no connection left: raise max_connections'],
  [/password must be a/, 'it wants a password: put one into its URL, postgres://user:password@host/name'],
  [/does not support SSL/, 'it speaks no TLS: write sslmode=disable into its URL'],
  [/certificate|altnames/i, 'name its authority in the URL by sslrootcert=FILE, or trust any by sslmode=no-verify'],
];

/** From PostgreSQL 15 on others than the owner of the database need a grant. */
const migratingMends: typeof mends = [
  [/^42501 /, 'migrate as the owner of the database, or GRANT CREATE ON SCHEMA public to its user'],
  ...mends,
];

/** @throws PetstoreError `storage_unusable` in one line */
export function throwUnusable(thrown: unknown, ways = mends): never {
  if (thrown instanceof PetstoreError && !(thrown instanceof DatabaseFailure)) throw thrown;
  const cause = causeOf(thrown);
  const reason = reasonOf(cause);
  const mend = ways.find(([told]) => told.test(`${stateOf(cause)} ${reason}`))?.[1] ?? 'see to it, or name another';
  throw new PetstoreError('storage_unusable', `the database cannot be used: ${mend} (${reason})`, { cause });
}
