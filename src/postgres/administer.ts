/**
 * What is done to a database now and then, by a command or a start: waiting for it, making its tables, copying to it.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { PetstoreError, reasonOf, type Log } from '../errors.js';
import { parsePet, type PetStatus } from '../pet.js';
import type { StoredText, TextTarget } from '../storage.js';
import { RecordNames } from '../memory/index.js';
import { causeOf, Connections, DatabaseFailure, stateOf, TimeoutError } from './connections.js';
import { copyingLimits, poolFor, servingLimits, type PostgresPool, type TimeLimits } from './driver.js';
import {
  addCounter,
  kindPrefix,
  petTable,
  recordTable,
  selectCounters,
  selectVersion,
  setVersion,
  steps,
  textOfHex,
  type Table,
} from './tables.js';

/** How often a database that is away is asked again, and how often the log is told, in milliseconds. */
const askAgainMs = 500;
const tellMs = 5_000;
/** For how long a batch of a copy is sent again where the database is away, in milliseconds. */
const copyAgainMs = 30_000;
/** What a step may take: an index over many animals is made in minutes, but a database that fell silent stays so. */
const longestStepMs = 600_000;
/** The database may be at work on a step for long; whatever else is asked is answered as to a server. */
const migratingLimits: TimeLimits = { ...servingLimits, statementMs: longestStepMs };
/** How often a step is taken again that another process took at the same time. */
const maxCollisions = 20;
/** The version of the tables that this petstore needs. */
const neededVersion = steps.length;

/**
 * Does what opens a database, again and again while that is away, starting or full, and says so each 5 s.
 * @throws what `open` throws, at once, where waiting cannot mend it.
 */
export async function untilThere<Value>(open: () => Promise<Value>, log: Log): Promise<Value> {
  for (let toldAt = Number.NEGATIVE_INFINITY; ; ) {
    try {
      return await open();
    } catch (error) {
      if (!isPassing(error)) throw error;
      if (performance.now() - toldAt >= tellMs) {
        toldAt = performance.now();
        log('warn', 'waiting for the database', { error: reasonOf(error) });
      }
      await wait(askAgainMs);
    }
  }
}

/** Refuses to open a database without the tables of this version: `migratePostgres` makes them. */
export class MissingTables extends PetstoreError {}

/** @throws MissingTables; PetstoreError `storage_unusable` for those of a later program; DatabaseFailure */
export async function checkTables(connections: Connections): Promise<void> {
  const version = await versionIn(connections);
  if (version === neededVersion) return;
  const problem =
    version === 0 ? 'has no petstore in it' : `has a petstore of version ${version}, where ${neededVersion} is needed`;
  throw new MissingTables(
    'storage_unusable',
    `the database ${problem}; make its tables with \`petstore migrate --storage URL\``,
  );
}

/**
 * The version of the tables in a database, 0 where there are none.
 * @throws PetstoreError `storage_unusable` for those of a later program, which may need more than we know of;
 * DatabaseFailure
 */
async function versionIn(connections: Connections): Promise<number> {
  const rows = await connections.read(selectVersion).catch((error: unknown) => {
    // No such table, or no such schema.
    if (['42P01', '3F000'].includes(stateOf(error))) return [];
    throw error;
  });
  const version = Number(rows[0]?.['version'] ?? 0);
  if (version <= neededVersion) return version;
  throw new PetstoreError(
    'storage_unusable',
    `the database has a petstore of version ${version}, and this one knows none above ${neededVersion}; ` +
      'use the later program, or another database',
  );
}

/**
 * Makes the petstore's tables in a database, or brings them up to date; a second time changes nothing, and several may
 * do so at once. Answers the versions of the schema before and after, 0 for none.
 * @throws PetstoreError `storage_unusable`
 */
export async function migratePostgres(
  database: string | PostgresPool,
): Promise<{ readonly from: number; readonly to: number }> {
  const from = await withConnections(database, migratingLimits, takeSteps, migratingMends);
  return { from, to: neededVersion };
}

/** The names of the records that plugins keep beside the animals. @throws PetstoreError `storage_unusable` */
export async function postgresRecordNames(database: string | PostgresPool): Promise<readonly string[]> {
  const rows = await withConnections(database, servingLimits, (connections) => connections.read(selectCounters));
  return rows.flatMap(({ name }) => (name?.startsWith(kindPrefix) ? [name.slice(kindPrefix.length)] : []));
}

/** Takes the steps that are missing. Answers the version before. */
async function takeSteps(connections: Connections): Promise<number> {
  const before = await versionIn(connections);
  for (const [index, step] of steps.entries()) {
    if (index < before) continue;
    // The database itself ends it first.
    await takeStep(() => connections.ask(step, [], { queryMs: longestStepMs + 500 }));
    await takeStep(() => connections.ask(setVersion, [index + 1]));
  }
  return before;
}

async function takeStep(take: () => Promise<unknown>): Promise<void> {
  // What two that make the same table at once may hear.
  const races = ['23505', '42P07', '42710', 'XX000', '40001', '40P01'];
  for (let collisions = 0; ; collisions++) {
    try {
      await take();
      return;
    } catch (error) {
      if (collisions === maxCollisions || !races.includes(stateOf(error))) throw error;
      await wait(10 * collisions);
    }
  }
}

async function withConnections<Value>(
  database: string | PostgresPool,
  limits: TimeLimits,
  work: (connections: Connections) => Promise<Value>,
  mends?: ReadonlyMap<string, string>,
): Promise<Value> {
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, 1, limits) : database;
  const connections = new Connections(pool, limits, () => undefined);
  try {
    return await work(connections);
  } catch (error) {
    throw unusableDatabase(error, mends);
  } finally {
    await connections.close(isOurs);
  }
}

/**
 * Opens a database with the petstore's tables to copy animals into it, or the records of a name; see `copyPets`.
 * @throws PetstoreError as `postgresStorage`.
 */
export async function postgresTarget(url: string, records?: string): Promise<TextTarget> {
  const connections = new Connections(await poolFor(url, 1, copyingLimits), copyingLimits, () => undefined);
  try {
    await checkTables(connections);
    if (records !== undefined) {
      new RecordNames().take(records);
      await connections.ask(addCounter, [recordTable(records).counter]);
    }
    const table = records === undefined ? petTable : recordTable(records);
    let { id: lastId } = await lastIn(connections, table);
    return {
      adopt: async (texts) => {
        lastId = await adopt(connections, table, lastId, texts).catch((error: unknown) =>
          Promise.reject(unusableDatabase(error)),
        );
      },
      close: () => connections.close(true),
    };
  } catch (error) {
    await connections.close(true);
    throw unusableDatabase(error);
  }
}

/** Adds texts to a copy whose last id is known, in one statement; answers the last id. */
async function adopt(
  connections: Connections,
  table: Table,
  lastId: bigint,
  texts: readonly StoredText[],
): Promise<bigint> {
  const [first, newest] = [texts.at(0), texts.at(-1)];
  if (first === undefined || newest === undefined) return lastId;
  if (first.id <= lastId)
    throw new PetstoreError(
      'storage_unusable',
      `the database has given ids up to ${lastId}, which ${first.id} cannot follow`,
    );
  const columns = [
    texts.map(({ id }) => id),
    texts.map(({ json }) => statusOf(json, table)),
    texts.map(({ json }) => Buffer.from(json, 'latin1')),
  ];
  const [taken] = await untilKnown(() => connections.ask(table.adoptBatch, [lastId, newest.id, ...columns]));
  // Nothing was done: either it was before, by a try whose answer was lost, or somebody else adds here.
  const last = taken === undefined ? await untilKnown(() => lastIn(connections, table)) : newest;
  if (last.id !== newest.id || last.json !== newest.json)
    throw new PetstoreError('storage_in_use', 'somebody else adds to the database that is copied to');
  return newest.id;
}

async function lastIn(connections: Connections, { selectLast }: Table): Promise<StoredText> {
  const [row] = await connections.read(selectLast);
  return { id: BigInt(row?.['last_id'] ?? 0), json: textOfHex(row?.['json'] ?? '') };
}

function statusOf(json: string, table: Table): PetStatus | '' {
  return table === petTable ? (parsePet(json).status ?? '') : '';
}

/** What an answer comes to, through a restart of the database too. @throws what it refuses, and what lasts too long */
async function untilKnown<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (const giveUpAt = performance.now() + copyAgainMs; ; await wait(100)) {
    try {
      return await ask();
    } catch (error) {
      const mayPass = error instanceof DatabaseFailure && (error.isUnknown || isPassing(error));
      if (!mayPass || performance.now() > giveUpAt) throw error;
    }
  }
}

/**
 * Classes of SQLSTATE and names of system errors that are of the moment: a database that starts, ends, is full or away,
 * and a machine of ours that has no port, file or buffer left.
 */
const passingStates = new RegExp(
  '^(08|40|53|55P03|57|E(CONN|TIMEDOUT|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|PIPE|AI_AGAIN|NOTFOUND|' +
    'AGAIN|MFILE|NFILE|ADDRNOTAVAIL|NOBUFS))',
);

/**
 * The same in words alone. The last is what a PostgreSQL without a process for it comes to that is asked for TLS, and
 * one that is no PostgreSQL, which the driver does not tell apart.
 */
const passingWords =
  /^(Connection terminated|timeout exceeded when trying to connect|There was an error establishing an SSL connection)/;

/** Whether waiting alone may mend what opening a database failed by. */
function isPassing(thrown: unknown): boolean {
  const cause = causeOf(thrown);
  if (cause instanceof TimeoutError || passingStates.test(stateOf(cause))) return true;
  if (!(cause instanceof Error)) return false;
  // A Unix socket that is not there yet.
  if (stateOf(cause) === 'ENOENT') return 'syscall' in cause && cause.syscall === 'connect';
  return passingWords.test(cause.message);
}

const mends = new Map([
  ['ECONNREFUSED', 'start it, or name another address'],
  ['ENOTFOUND', 'there is no such host: name another'],
  ['3D000', 'there is no such database: create it, or name another'],
  ['28000', 'see to its user and password'],
  ['28P01', 'see to its user and password'],
  ['42501', 'its user needs the right to SELECT, INSERT and UPDATE the tables petstore_*'],
  ['53300', 'it has no connection left: raise max_connections'],
]);

/**
 * Of who makes the tables: in PostgreSQL 15 and later only the owner of the database may do so without being granted
 * it.
 */
const migratingMends = new Map([
  ...mends,
  ['42501', 'migrate as the owner of the database, or GRANT CREATE ON SCHEMA public to its user'],
]);

/** The same for what the driver says in words alone. */
const mendsOfWords: readonly (readonly [RegExp, string])[] = [
  [/password must be a/, 'it wants a password: put one into its URL, postgres://user:password@host/name'],
  [/does not support SSL/, 'it speaks no TLS: write sslmode=disable into its URL'],
  [/certificate|altnames/i, 'name its authority in the URL by sslrootcert=FILE, or trust any by sslmode=no-verify'],
];

/** A `storage_unusable` of one line for what opening failed by, or migrating. */
export function unusableDatabase(thrown: unknown, mendOf: ReadonlyMap<string, string> = mends): PetstoreError {
  if (thrown instanceof PetstoreError && !(thrown instanceof DatabaseFailure)) return thrown;
  const cause = causeOf(thrown);
  const mend =
    mendOf.get(stateOf(cause)) ??
    mendsOfWords.find(([words]) => words.test(reasonOf(cause)))?.[1] ??
    'see to it, or name another';
  return new PetstoreError('storage_unusable', `the database cannot be used: ${mend} (${reasonOf(cause)})`, { cause });
}
