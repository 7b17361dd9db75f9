/** Owns the storage in a PostgreSQL database: the contract over its tables. Several servers may share one. */
import { setTimeout as wait } from 'node:timers/promises';
import { checkNames } from '../../calling.js';
import { PetstoreError } from '../../errors.js';
import { int64Max } from '../../int64.js';
import type { Log } from '../../log.js';
import { checkDraft, type PetDraft } from '../../pet.js';
import type { PetStorage, StoredText, PetTexts } from '../../storage.js';
import { GroupCommit } from '../group-commit.js';
import { petsOf } from '../texts.js';
import { Batches } from './batches.js';
import { Connections } from './connections.js';
import { unusableDatabase } from './failure.js';
import { poolFor, servingLimits, type PostgresPool, type TimeLimits } from './pool.js';
import { Reads } from './reads.js';
import { checkSchema, neededVersion, schemaVersion, takeSteps } from './schema.js';

/** What a PostgreSQL storage may be given. */
export interface PostgresStorageOptions {
  /** Hears when the database cannot be used, and when it can again. @defaultValue nobody */
  readonly log?: Log;
  /** The most connections at once, from 1; not for a pool that is given. @defaultValue 10 */
  readonly maxConnections?: number;
}

/** How long closing waits for a database that does not answer before the process may end without it. */
const hungCloseMs = 1_000;
/** Changing tables may take as long as it takes. */
const migratingLimits: TimeLimits = { connectMs: servingLimits.connectMs, statementMs: 0, queryMs: 0 };

/**
 * Opens the storage in a database with the petstore's tables (see {@link migratePostgres}).
 * @param database A URL such as `postgres://user@host/name`, or a pool of `pg`, which stays its owner's to end.
 * @throws PetstoreError `storage_unusable` in one line: no `pg`, no database, no tables, no right to read them.
 */
export async function postgresStorage(database: string | PostgresPool, options: PostgresStorageOptions = {}): Promise<PetStorage> {
  checkNames('option of postgresStorage', options, ['log', 'maxConnections'] satisfies (keyof PostgresStorageOptions)[]);
  const { log = () => undefined, maxConnections = 10 } = options;
  if (!Number.isInteger(maxConnections) || maxConnections < 1) throw new TypeError('option maxConnections must be an integer from 1');
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, maxConnections, servingLimits) : database;
  let tell: Log = () => undefined;
  const connections = new Connections(pool, servingLimits, (...said) => tell(...said));
  try {
    await checkSchema(connections);
  } catch (error) {
    await connections.close(isOurs);
    throw unusableDatabase(error);
  }
  // What opening fails by is thrown, not logged.
  tell = log;
  return new PostgresStorage(connections, isOurs);
}

/**
 * Makes the petstore's tables in a database, or brings them up to date; a second time changes nothing. Answers the
 * versions of the schema before and after, 0 for none.
 * @throws PetstoreError `storage_unusable`
 */
export async function migratePostgres(database: string | PostgresPool): Promise<{ readonly from: number; readonly to: number }> {
  return withConnections(database, async (connections) => {
    const from = await takeSteps(connections);
    return { from, to: Math.max(from, neededVersion) };
  });
}

/**
 * Whether a database has the tables that {@link postgresStorage} needs.
 * @throws PetstoreError `storage_unusable` where it cannot be asked.
 */
export async function isMigrated(database: string | PostgresPool): Promise<boolean> {
  return withConnections(database, async (connections) => (await schemaVersion(connections)) >= neededVersion);
}

async function withConnections<Value>(database: string | PostgresPool, work: (connections: Connections) => Promise<Value>): Promise<Value> {
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, 1, migratingLimits) : database;
  const connections = new Connections(pool, migratingLimits, () => undefined);
  try {
    return await work(connections);
  } catch (error) {
    throw unusableDatabase(error);
  } finally {
    await connections.close(isOurs);
  }
}

const selectReadiness = "SELECT last_id, current_setting('transaction_read_only') AS read_only FROM petstore_counters WHERE name = 'pets'";

class PostgresStorage implements PetStorage {
  readonly durable = true;
  readonly texts: PetTexts;
  readonly insert: PetStorage['insert'];
  readonly get: PetStorage['get'];
  readonly list: PetStorage['list'];
  readonly #connections: Connections;
  readonly #isOurs: boolean;
  readonly #reads: Reads;
  readonly #commits: GroupCommit<PetDraft, StoredText>;
  readonly #stop = new AbortController();
  #closing: Promise<void> | undefined;
  #readiness: Promise<void> | undefined;

  constructor(connections: Connections, isOurs: boolean) {
    this.#connections = connections;
    this.#isOurs = isOurs;
    this.#reads = new Reads(connections);
    const batches = new Batches(connections, this.#stop.signal);
    this.#commits = new GroupCommit({
      commit: (drafts) => batches.store(drafts),
      bytesOf: (draft) => 2 * draft.name.length + 128,
      hung: 'The database does not answer.',
    });
    this.texts = {
      insert: (draft) => {
        checkDraft(draft);
        return this.#commits.add(draft);
      },
      get: (id) => this.#opened().get(id),
      list: (query) => this.#opened().page(query),
    };
    ({ insert: this.insert, get: this.get, list: this.list } = petsOf(this.texts));
  }

  /** Asks the database, once for all who want to know at the same time. */
  async ready(): Promise<void> {
    this.#readiness ??= this.#askReadiness().finally(() => (this.#readiness = undefined));
    await this.#readiness;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#commits.close();
    this.#stop.abort();
    await Promise.race([this.#connections.close(this.#isOurs), wait(hungCloseMs, undefined, { ref: false })]);
  }

  async #askReadiness(): Promise<void> {
    this.#opened();
    if (this.#commits.hung) throw new PetstoreError('unavailable', 'The database does not answer.');
    const [row] = await this.#connections.read(selectReadiness);
    if (row?.['read_only'] !== 'off') throw new PetstoreError('unavailable', 'The database takes no writes.');
    if (BigInt(row['last_id'] ?? 0) === int64Max) throw new PetstoreError('unavailable', 'There are no ids left.');
  }

  /** What is there to read, until it closes. */
  #opened(): Reads {
    if (this.#closing !== undefined) throw new PetstoreError('unavailable', 'The storage is closed.');
    return this.#reads;
  }
}
