/** Adds the records of one table in batches, and proves that it can. */
import { performance } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import {
  commitWatchers,
  groupCommit,
  recordBytes,
  type KeyedRecord,
  type RecordStore,
  type PendingRecord,
} from '../engine/index.js';
import { inFlight, PetstoreError } from '../errors.js';
import { int64Max } from '../json.js';
import type { Log } from '../log.js';
import type { IdempotencyKeyUse, PetStorage } from '../storage.js';
import { batchWriter, type Added, type Batch, type BatchWriter } from './batch-writer.js';
import { overdueStates, stateOf } from './connections.js';
import { BatchPace } from './pace.js';
import type { Database } from './schema.js';
import type { Table } from './statements.js';
import { readLastId, tableReader } from './table-reader.js';

/** The longest time of a readiness check in ms. */
const readinessMs = 4_000;

/** The interval in ms at which a readiness check looks for records that other servers added. */
const progressMs = 100;

/** The records of one table, with the members of a `PetStorage` for them. */
export interface TableStore extends Required<Pick<PetStorage, 'waiting' | 'onCommit' | 'ready'>> {
  readonly store: RecordStore;

  /**
   * Checks that records can be read, and that the role has the privileges to add.
   * @throws DatabaseFailure if records cannot be read or a privilege is missing. Other reasons why
   * adding fails may be transient and do not count.
   */
  open(): Promise<void>;

  /** Refuses further calls, and waits until all waiting records are added. */
  close(): Promise<unknown>;
}

/** Returns `overdue` if an add took too long, or `refused` if it failed for another reason. */
function failureOf(error: unknown): 'overdue' | 'refused' {
  return overdueStates.test(stateOf(error)) ? 'overdue' : 'refused';
}

/** Returns the store of a table. */
export function tableStore(database: Database, table: Table, log: Log): TableStore {
  const reader = tableReader(database, table);
  const pace = new BatchPace();
  const writers = [batchWriter(database, table, pace), batchWriter(database, table, pace)] as const;
  const idleWriters: BatchWriter[] = [...writers];
  // Readiness must not wait for a batch.
  const readinessWriter = batchWriter(database, table, new BatchPace());

  const commits = groupCommit<KeyedRecord, Added>({
    commit: (records) => commit(records).finally(() => endKeys(records)),
    abandoned: (record) => endKeys([record]),
    bytesOf: recordBytes,
    batchBytes: () => pace.bytes,
    // Two batches must not take all connections.
    ...(database.maxConnections > 2 && {
      overlap: {
        inAnyOrder: (record) => record.inAnyOrder === true,
        leastBytes: () => pace.overlapBytes,
      },
    }),
    hung: 'The database does not respond.',
  });

  const keysInFlight = new Set<string>();
  const watchers = commitWatchers(log);

  /** The worst failure of adding since readiness was last proved. */
  let failed: 'never' | 'overdue' | 'refused' = 'never';
  /** The record to rehearse: one of the last stored batch, or the first one that failed. */
  let rehearsalRecord: KeyedRecord | undefined;
  let rehearsal: Promise<void> | undefined;
  let readiness: Promise<void> | undefined;

  async function add(record: KeyedRecord) {
    const added = await commits.add(record);
    if (added instanceof PetstoreError) throw added;
    return added;
  }

  /** Adds a pet. If another server has a request with this key in flight, its commit is awaited. */
  async function insertOnce(record: PendingRecord, keyUse: IdempotencyKeyUse) {
    if (keysInFlight.has(keyUse.key)) throw inFlight;

    keysInFlight.add(keyUse.key);
    return add({ ...record, keyUse });
  }

  function endKeys(records: Batch) {
    for (const { keyUse } of records) if (keyUse !== undefined) keysInFlight.delete(keyUse.key);
  }

  async function commit(records: Batch) {
    const startedAt = performance.now();
    const writer = idleWriters.pop();
    if (writer === undefined) throw new TypeError('there are more commits than writers');

    try {
      const { added, fresh } = await writer.store(records);
      // The other writer may still have to find an outcome.
      if (writers.every(({ outcome }) => outcome === 'known')) database.reportWrite(table.counter);
      if (fresh.length === 0) return added;

      rehearsalRecord = fresh[0];
      watchers.tell({ count: fresh.length, syncMilliseconds: performance.now() - startedAt });
      return added;
    } catch (error) {
      noteFailure(failureOf(error));
      rehearsalRecord ??= records[0];
      database.reportWrite(table.counter, error);
      throw error;
    } finally {
      idleWriters.push(writer);
    }
  }

  /** Returns the last id after reading the page that follows it, which has no damaged records. */
  async function readEnd() {
    const lastId = await readLastId(database, table);
    await reader.list({ limit: 20, after: lastId });
    return lastId;
  }

  function noteFailure(failure: typeof failed) {
    if (failed !== 'refused') failed = failure;
  }

  async function proveReadiness() {
    const before = failed;
    // Cleared first, because a failure during the check must be noted.
    failed = 'never';

    try {
      const lastId = await readEnd();
      if (lastId === int64Max) throw new PetstoreError('unavailable', 'There are no ids left.');

      if (before !== 'never' && rehearsalRecord) await proveAdding(rehearsalRecord, before, lastId);
      // Only a commit waits for a synchronous standby.
      await readinessWriter.store([]);
    } catch (error) {
      noteFailure(before === 'refused' ? before : failureOf(error));
      throw error;
    }
  }

  /**
   * Rehearses a record after a failed add. If the rehearsal only waits for the adds of other
   * servers (C78), adding works, and the next check rehearses again.
   * @param lastId The last id before the rehearsal.
   * @throws DatabaseFailure if adding fails
   */
  async function proveAdding(record: KeyedRecord, before: typeof failed, lastId: bigint) {
    // An earlier rehearsal may still be in flight.
    rehearsal ??= readinessWriter.rehearse(record).finally(() => (rehearsal = undefined));
    const rehearsed = rehearsal.catch(async (error: unknown) => {
      if (failureOf(error) === 'refused' || !(await hasProgress(lastId))) throw error;
      noteFailure(before);
    });
    const untilProgress = async (own = rehearsal) => {
      while (own === rehearsal) {
        await wait(progressMs, undefined, { ref: false });
        if (!(await hasProgress(lastId))) continue;
        noteFailure(before);
        return;
      }
      await rehearsed;
    };
    // Does not wait for the end of the rehearsal, because that may wait for many adds.
    await (before === 'overdue' ? Promise.race([rehearsed, untilProgress()]) : rehearsed);
  }

  /** True if records were added after the id. */
  async function hasProgress(lastId: bigint) {
    return (await readLastId(database, table)) > lastId;
  }

  async function ready() {
    const unresponsive = new PetstoreError('unavailable', 'The database does not respond.');

    const outcomes = [readinessWriter, ...writers].map(({ outcome }) => outcome);
    if (commits.hung || outcomes.includes('unknown')) throw unresponsive;

    readiness ??= proveReadiness().finally(() => (readiness = undefined));
    await Promise.race([
      readiness,
      wait(readinessMs, undefined, { ref: false }).then(() => Promise.reject(unresponsive)),
    ]);
  }

  return {
    store: { insert: add, insertOnce, get: reader.get, list: reader.list },
    open: async () => {
      await readEnd();
      await readinessWriter.rehearse().catch((error: unknown) => {
        if (stateOf(error) === '42501') throw error;
      });
    },
    get waiting() {
      return commits.waiting;
    },
    onCommit: watchers.add,
    ready,
    close: () => Promise.all([commits.close(), reader.close()]),
  };
}
