/** The PostgreSQL storage: pets in a database that several servers share. */
import {
  toPetStorage,
  toPetTexts,
  RecordNames,
  recordsWhenOpen,
  untilClosed,
  type RecordStore,
} from '../engine/index.js';
import type { Log } from '../log.js';
import { steadyClock } from '../clock.js';
import { checkNames } from '../options.js';
import type { PetStorage } from '../storage.js';
import { commandMs, ignore, servingMs, type Connections } from './connections.js';
import { poolMaxOf } from './database-url.js';
import type { PostgresPool } from './driver.js';
import { keySweeper } from './key-sweeper.js';
import { throwUnusable, waitForDatabase } from './failures.js';
import { connectToTables } from './schema.js';
import { selectTime } from './statements.js';
import { tableStore } from './table-store.js';

/**
 * The most connections of a server by default. A database of 25 connections keeps 3 for
 * administrators, so that 22 are enough for three servers and a command.
 */
const defaultConnections = 7;

/** The options of `postgresStorage`. */
export interface PostgresStorageOptions {
  /** Receives a line when the database fails and when it works again. @defaultValue no log */
  readonly log?: Log;

  /**
   * The most connections at once, from 1; ignored if a pool is given.
   * @defaultValue `pool_max` of the URL, or 7
   */
  readonly maxConnections?: number;

  /**
   * True if the storage is the source of a copy (see `copyPets`). A read may then take 20 s instead
   * of 3 s, and fails with `storage_unusable` and the reason. Opening writes nothing, so that a
   * standby, or a role with only the privilege to read, can be copied from.
   * @defaultValue false
   */
  readonly isSource?: boolean;
}

/**
 * Opens the storage in a database that has the tables (see `migratePostgres`).
 * @param database A URL such as `postgres://user@host/name`, or a pool of `pg`, which the caller
 * ends.
 * @throws PetstoreError `storage_unusable` if `pg`, the database, the tables or a privilege is
 * missing
 * @throws TypeError if the URL or an option is not valid
 */
export async function postgresStorage(
  database: string | PostgresPool,
  options: PostgresStorageOptions = {},
): Promise<PetStorage> {
  checkNames('option of postgresStorage', options, {
    log: true,
    maxConnections: true,
    isSource: true,
  });
  const { log = ignore, isSource = false } = options;
  const poolMax = typeof database === 'string' ? poolMaxOf(database) : undefined;
  const { maxConnections = poolMax ?? defaultConnections } = options;

  if (!Number.isInteger(maxConnections) || maxConnections < 1)
    throw new TypeError('option maxConnections must be an integer from 1');

  const given = typeof database === 'string' ? undefined : database.options;
  // Without a timeout, a connection attempt without a response holds its place in the pool for
  // ever.
  if (given !== undefined && !(Number(given.connectionTimeoutMillis) > 0))
    log(
      'warn',
      'the pool has no connectionTimeoutMillis, so it may not recover from a network failure; ' +
        'set connectionTimeoutMillis: 2000',
    );

  const statementMs = isSource ? commandMs : servingMs;
  const opened = await connectToTables(database, statementMs, maxConnections, log);

  const read: Connections['read'] = (...statement) =>
    opened.read(...statement).catch(throwUnusable);
  const connections = isSource ? { ...opened, read } : opened;

  const pets = tableStore(connections, opened.sql.petTable, log);

  const refuse = async (error: unknown) => {
    await connections.close();
    throwUnusable(error);
  };
  if (!isSource) await pets.open().catch(refuse);
  const [row] = await connections.read(selectTime).catch(refuse);

  const now = Number(row?.['now']);
  const sweeper = isSource ? undefined : keySweeper(opened, now, log);
  const petStore: RecordStore = {
    ...pets.store,
    insertOnce: (record, keyUse) => {
      sweeper?.noteTime(keyUse.at);
      return pets.store.insertOnce(record, keyUse);
    },
  };
  // Only `insert` of the storage promises ids in the order of the calls. Requests at the same time
  // have no order.
  const texts = toPetTexts({
    ...petStore,
    insert: (record) => petStore.insert({ ...record, inAnyOrder: true }),
    insertOnce: (record, keyUse) => petStore.insertOnce({ ...record, inAnyOrder: true }, keyUse),
  });

  const stores = [pets];
  const names = new RecordNames();
  let closing: Promise<void> | undefined;

  return {
    ...toPetStorage(toPetTexts(petStore)),
    texts,
    durable: true,
    get waiting() {
      return pets.waiting;
    },
    onCommit: pets.onCommit,
    // One clock for all servers (C73).
    keyClock: steadyClock(now),
    records: (name, kind) =>
      recordsWhenOpen(kind, async () => {
        names.take(name);
        const records = tableStore(connections, opened.sql.recordTable(name), log);
        stores.push(records);
        await waitForDatabase(() => records.open().catch(throwUnusable), log);
        return records.store;
      }),
    ready: async () => void (await Promise.all(stores.map((store) => store.ready()))),
    close: () =>
      (closing ??= Promise.all([sweeper, ...stores].map((each) => each?.close())).then(() =>
        untilClosed(connections.close()),
      )),
  };
}
