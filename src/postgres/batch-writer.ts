/**
 * The protocol by which several servers add to one database, without locks of their own and without
 * adding anything twice.
 *
 * A **writer** adds records of one table for one server, one batch at a time. A server has two for
 * each table, and one for readiness. The name of a writer is a random UUID. Its row in
 * `petstore_writers` holds the number and the last id of its last batch.
 *
 * A **batch** is added by one statement (`insertBatch`), which is one transaction:
 * - It raises the counter by the number of its records, and takes the ids up to the new value. The
 *   counter's row stays locked until the commit, so that ids become visible in order on all
 *   servers.
 * - It stores its number in the writer's row. Numbers only grow: the statement fails if the row
 *   already has this number or a higher one.
 * - It stores the **uses of idempotency keys**: body, time and id. The writer has looked up the
 *   keys before, and left out repeats. If another server has used a key since, the statement fails,
 *   and the writer does both again.
 *
 * The **outcome** of a batch is:
 * - stored, if the statement returned its row;
 * - not stored, if it failed with an ERROR;
 * - unknown, if the connection was lost or the failure proves neither. Then the statement `settle`
 *   tries to store the batch's number itself, with -1 as its last id. If the number is there
 *   already, the batch was stored, and the row has its last id. Otherwise the batch can no longer
 *   be stored, because its number is taken. The writer repeats `settle` until the database
 *   responds, and adds nothing meanwhile.
 *
 * **Readiness** is proved in two steps. A rehearsal is a batch with the number 0 by a writer
 * without a row; it fails on purpose once everything could have been stored. An empty batch then
 * shows that a commit works, because only a commit waits for a synchronous standby. An empty batch
 * writes only the writer's row, and does not wait for the counter.
 */
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import {
  hasExpired,
  mismatch,
  recordBytes,
  withId,
  type KeyedRecord,
  type PendingRecord,
} from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import { int64Max } from '../json.js';
import type { IdempotencyKeyUse, StoredText } from '../storage.js';
import { byteaArray } from './binary.js';
import {
  causeOf,
  DatabaseFailure,
  outOfRange,
  overdueStates,
  retry,
  stateOf,
} from './connections.js';
import type { Row } from './driver.js';
import type { BatchPace, BatchTimes } from './pace.js';
import type { Database } from './schema.js';
import { keyTakenWords, numberTakenWords, rehearsedWords, type Table } from './statements.js';
import { readLastId } from './table-reader.js';

/** The records of one batch, in the order of their ids. */
export type Batch = readonly KeyedRecord[];

/** The stored record, which a repeated key shares with its first use; or the error of its key. */
export type Added = StoredText | PetstoreError;

/** The result of a batch. */
export interface AddedBatch {
  /** The result of each record, in the order of the records. */
  readonly added: readonly Added[];

  /** The records that are new, without repeats. */
  readonly fresh: Batch;
}

/** Adds batches to one table. The caller must not call `store` while a call is in flight. */
export interface BatchWriter {
  /**
   * Stores records in their order. It commits even if there is nothing new to store: only that
   * commit proves that a synchronous standby has the first use of a repeated key.
   * @throws DatabaseFailure if nothing is stored
   */
  store(records: Batch): Promise<AddedBatch>;

  /**
   * Tries to store a record with a new idempotency key, or an empty batch, and undoes it.
   * @throws DatabaseFailure if it could not be stored
   */
  rehearse(record?: PendingRecord): Promise<void>;

  /** The state of the last batch; unknown while `settle` is repeated. */
  readonly outcome: 'known' | 'unknown';
}

/** Returns a new writer to a table, whose batches adjust `pace`. */
export function batchWriter(database: Database, table: Table, pace: BatchPace): BatchWriter {
  let writerId = randomUUID();
  let lastNumber = 0n;
  let outcome: BatchWriter['outcome'] = 'known';

  async function storeOnce(records: Batch) {
    const repeats = await readRepeats(records);
    const fresh = records.filter((_, index) => !repeats[index]);
    let id = (await commit(fresh)) - BigInt(fresh.length);

    const added = records.map(({ jsonAfterId }, index): Added => {
      const repeat = repeats[index];
      if (repeat) return repeat;
      id++;
      return { id, json: withId(id, jsonAfterId) };
    });
    return { added, fresh };
  }

  /** Stores records. If too few ids are left for all of them, the first ones get the ids. */
  async function store(records: Batch): Promise<AddedBatch> {
    try {
      return await retry(() => storeOnce(records), canBeSentAgain, 2_000);
    } catch (error) {
      if (!(error instanceof DatabaseFailure) || stateOf(error) !== outOfRange) throw error;

      const idsLeft = Number(int64Max - (await readLastId(database, table)));
      if (idsLeft === 0 || idsLeft >= records.length) throw error;
      const { added, fresh } = await storeOnce(records.slice(0, idsLeft));
      return { added: [...added, ...records.slice(idsLeft).map(() => error)], fresh };
    }
  }

  /** Returns the stored result for each record's key, or undefined if the key is new or absent. */
  async function readRepeats(records: Batch) {
    const keyed = records.flatMap(({ keyUse }) => keyUse ?? []);
    if (keyed.length === 0) return [];

    const values = [keyed.map(({ key }) => key), keyed.map(({ body }) => body)];
    const rows = await database.read(database.sql.selectKeys, values);

    const uses = new Map<string | null | undefined, Row>(rows.map((row) => [row['key'], row]));
    return records.map(({ keyUse }) => keyUse && repeatOf(keyUse, uses.get(keyUse.key)));
  }

  /** Commits one batch and returns its last id. */
  async function commit(records: Batch) {
    const number = ++lastNumber;
    const bytes = records.reduce((sum, record) => sum + recordBytes(record), 0);
    const startedAt = performance.now();

    try {
      const rows = await insert(writerId, number, records);
      pace.note(bytes, performance.now() - startedAt, timesIn(rows));
      return lastIdIn(rows);
    } catch (error) {
      if (overdueStates.test(stateOf(error))) pace.noteLate(bytes);
      // The writer's row was changed, as by a restored backup, so its numbers are useless.
      if (failedWith(numberTakenWords, error)) writerId = randomUUID();
      if (!(error instanceof DatabaseFailure) || error.outcome !== 'unknown') throw error;

      // Logged before settling, which may take as long as the database is away.
      database.reportWrite(table.counter, error);

      const lastId = await settle(number);
      if (lastId === undefined) throw new DatabaseFailure(error.cause, 'not done');
      return lastId;
    }
  }

  function insert(writer: string, number: bigint, records: Batch) {
    const uses = records.flatMap(({ keyUse }, index) =>
      keyUse ? { ...keyUse, n: index + 1 } : [],
    );

    const values = [
      writer,
      number,
      records.length,
      table.counter,
      ...columnsOf(records),
      uses.map(({ key }) => key),
      uses.map(({ body }) => body),
      uses.map(({ at }) => at),
      uses.map(({ n }) => n),
    ];
    // Only a batch of one record can be longer than the pace permits.
    return database.write(table.insertBatch, values, { mayBeLong: records.length === 1 });
  }

  /** Returns the last id of a batch, or undefined if the batch can no longer be stored. */
  async function settle(number: bigint) {
    const findOutcome = async () => {
      const rows = await database.write(database.sql.settle, [writerId, number]);
      return rows.length === 0 || rows[0]?.['last_id'] === '-1' ? undefined : lastIdIn(rows);
    };

    outcome = 'unknown';
    try {
      return await retry(findOutcome, (error) => error instanceof DatabaseFailure);
    } finally {
      outcome = 'known';
    }
  }

  return {
    store,

    rehearse: async (record) => {
      const keyed = record ? [{ ...record, keyUse: { key: randomUUID(), body: '', at: 0 } }] : [];

      await insert(randomUUID(), 0n, keyed).catch((error: unknown) => {
        if (!failedWith(rehearsedWords, error)) throw error;
      });
    },

    get outcome() {
      return outcome;
    },
  };
}

/** Returns the statuses of records, '' for a missing status, and the bytes of JSON after the id. */
export function columnsOf(records: readonly PendingRecord[]): readonly [string[], Buffer] {
  return [
    records.map(({ indexed }) => indexed?.status ?? ''),
    byteaArray(records.map(({ jsonAfterId }) => jsonAfterId)),
  ];
}

/** Returns the stored result for a key, or undefined if the key is new or has expired. */
function repeatOf(keyUse: IdempotencyKeyUse, known: Row | undefined): Added | undefined {
  if (known === undefined || hasExpired(Number(known['sent_at']), keyUse.at)) return undefined;
  if (known['body'] !== keyUse.body) return mismatch;

  const { pet_id: id, json } = known;
  // Only an operator can have deleted the pet.
  if (!id || !json)
    return new PetstoreError('unavailable', 'The pet of this idempotency key was deleted.');
  return { id: BigInt(id), json, isReplay: true };
}

/** Returns the times in the result of a batch, which are NaN if it is damaged. */
function timesIn([row]: readonly Row[]): BatchTimes {
  const timeOf = (name: string) => Number.parseFloat(row?.[name] ?? '');
  return {
    receivedAt: timeOf('received_at'),
    takenAt: timeOf('taken_at'),
    endedAt: timeOf('ended_at'),
  };
}

/** Returns the last id in a result. @throws DatabaseFailure if the result is damaged */
function lastIdIn([row]: readonly Row[]) {
  const digits = row?.['last_id'] ?? '';
  if (/^[0-9]{1,19}$/.test(digits)) return BigInt(digits);

  throw new DatabaseFailure(new Error('the result of a batch has no last id'), 'unknown');
}

/** True if a failed batch may succeed if it is sent again. */
function canBeSentAgain(error: unknown) {
  return (
    failedWith(numberTakenWords, error) ||
    failedWith(keyTakenWords, error) ||
    /^(40001|40P01)$/.test(stateOf(error))
  );
}

/** True if our own statement failed on purpose with `words`. A trigger may share its SQLSTATE. */
function failedWith(words: string, error: unknown) {
  return stateOf(error) === '22P02' && reasonOf(causeOf(error)).includes(words);
}
