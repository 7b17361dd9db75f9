/** PostgreSQL storage: pets in a database that several servers may share. */
import {
  toPetStorage,
  toPetTexts,
  RecordNames,
  recordsWhenOpen,
  untilClosed,
} from '../engine/index.js';
import type { Log } from '../log.js';
import { checkNames, steadyClock } from '../options.js';
import type { PetStorage } from '../storage.js';
import { connectToTables, throwUnusable, untilThere } from './administer.js';
import { copyingMs, ignore, servingMs, type Connections } from './connections.js';
import type { PostgresPool } from './driver.js';
import { postgresRecords } from './postgres-records.js';
import { petTable, recordTable, selectTime } from './tables.js';

/** What a PostgreSQL storage may be given. */
export interface PostgresStorageOptions {
  /** Hears when the database cannot be used, and when it can again. @defaultValue nobody */
  readonly log?: Log;

  /** The most connections at once, from 1; not for a pool that is given. @defaultValue 10 */
  readonly maxConnections?: number;

  /**
   * Whether it is there to be copied from (see `copyPets`). A read may take 20 s then, in place of
   * 3, and rejects with `storage_unusable` and the reason. Nothing is written as it opens: a
   * standby, or a role that may only read, can be copied from.
   * @defaultValue false
   */
  readonly isSource?: boolean;
}

/**
 * Opens the storage in a database that has the tables (see `migratePostgres`).
 * @param database A URL such as `postgres://user@host/name`, or a pool of `pg`, which stays its
 * owner's to end.
 * @throws PetstoreError `storage_unusable` without `pg`, database, tables or rights; TypeError for
 * what is no URL, and for options against the rules.
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
  const { log = ignore, maxConnections = 10, isSource = false } = options;

  if (!Number.isInteger(maxConnections) || maxConnections < 1)
    throw new TypeError('option maxConnections must be an integer from 1');

  const given = typeof database === 'string' ? undefined : database.options;
  // Without it a connection that falls silent while it is made keeps its place for ever.
  if (given !== undefined && !(Number(given.connectionTimeoutMillis) > 0))
    log(
      'warn',
      'the pool has no connectionTimeoutMillis, and may not come back after a silence; ' +
        'give it 2000',
    );

  const statementMs = isSource ? copyingMs : servingMs;
  const opened = await connectToTables(database, statementMs, maxConnections, log);

  const read: Connections['read'] = (...statement) =>
    opened.read(...statement).catch(throwUnusable);
  const connections = isSource ? { ...opened, read } : opened;

  const pets = postgresRecords(connections, petTable, log);

  const refuse = async (error: unknown) => {
    await connections.close();
    throwUnusable(error);
  };
  if (!isSource) await pets.open().catch(refuse);
  const [row] = await connections.read(selectTime).catch(refuse);

  const kinds = [pets];
  const names = new RecordNames();
  let closing: Promise<void> | undefined;

  return {
    ...toPetStorage(toPetTexts(pets.store)),
    durable: true,
    get waiting() {
      return pets.waiting;
    },
    onCommit: pets.onCommit,
    // One clock for all servers (C73).
    keyClock: steadyClock(Number(row?.['now'])),
    records: (name, kind) =>
      recordsWhenOpen(kind, async () => {
        names.take(name);
        const records = postgresRecords(connections, recordTable(name), log);
        kinds.push(records);
        await untilThere(() => records.open().catch(throwUnusable), log);
        return records.store;
      }),
    ready: async () => void (await Promise.all(kinds.map((records) => records.ready()))),
    close: () =>
      (closing ??= Promise.all(kinds.map((records) => records.close())).then(() =>
        untilClosed(connections.close()),
      )),
  };
}
