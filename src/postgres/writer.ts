/**
 * How several servers add to one database, without a lock of their own and without adding twice.
 *
 * A **writer** adds records of one kind for one server, one batch at a time. Its name is a random
 * UUID, and its row in `petstore_writers` has the number of its last batch and the last id in that.
 *
 * A **batch** is what one statement adds (`insertBatch`), which is a transaction of its own. It
 * raises the counter by as many ids as it has records: those up to the new value are theirs. The
 * counter's row stays locked until the commit, so that ids become visible in order, over all
 * servers. With the records the batch keeps its number in the writer's row. A number is kept once,
 * and numbers only grow: a batch whose number is there already, or is passed, ends itself by an
 * error.
 *
 * The **use of an idempotency key** (its body, its time, its record's id) is kept in the same
 * statement. Before that the writer reads what the keys were used for, and leaves the repeats out.
 * Where another server has used a key since, the batch ends itself, and both are done again.
 *
 * The **outcome** of a batch is that it was stored, which its rows prove; that it was not, which an
 * ERROR proves; or unknown, where an answer was lost or says too little. Then the statement
 * `settle` keeps the batch's number itself, with -1 for its last id. Where it finds the number
 * there already, the batch was stored, and the last id is beside it. Else the batch never will be
 * stored, for its number is taken. The writer asks until the database answers, and adds nothing
 * meanwhile.
 *
 * **Readiness** is proved by a rehearsal, a batch of number 0 by a writer without a row, which ends
 * itself where all could have been stored; and by an empty batch, for only a commit waits for a
 * synchronous standby.
 */
import { randomUUID } from 'node:crypto';
import {
  hasExpired,
  mismatch,
  withId,
  type KeyedRecord,
  type PendingRecord,
} from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import type { IdempotencyKeyUse, StoredText } from '../storage.js';
import { causeOf, DatabaseFailure, retry, stateOf, type Connections } from './connections.js';
import type { Row } from './driver.js';
import * as sql from './tables.js';

/** The records of one batch, in the order of their ids. */
export type Batch = readonly KeyedRecord[];

/** A record that is stored, be it by the first use of its key; or why the key does not allow it. */
export type Added = StoredText | PetstoreError;

/** What became of a batch. */
export interface AddedBatch {
  /** One for each record, in their order. */
  readonly added: readonly Added[];

  /** Those that are new. */
  readonly fresh: Batch;
}

/** Adds batches one at a time; whoever calls waits for the one before. */
export interface Writer {
  /**
   * Stores records in their order, and commits where there are none, too: only behind a commit of
   * this very call is the first use of a repeated key on a synchronous standby.
   * @throws DatabaseFailure where nothing is stored.
   */
  store(records: Batch): Promise<AddedBatch>;

  /**
   * Stores a record with a new key, or nothing, and undoes it.
   * @throws DatabaseFailure where it could not be stored.
   */
  rehearse(record?: PendingRecord): Promise<void>;

  /** Whether it is known what became of the last batch. */
  readonly outcome: 'known' | 'unknown';
}

/** A new writer to a table. */
export function writerTo(connections: Connections, table: sql.Table): Writer {
  let writerId = randomUUID();
  let lastNumber = 0n;
  let outcome: Writer['outcome'] = 'known';

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

  /** What each record's key is answered by; undefined where it is new, or there is none. */
  async function readRepeats(records: Batch) {
    const keyed = records.flatMap(({ keyUse }) => keyUse ?? []);
    if (keyed.length === 0) return [];

    const values = [keyed.map(({ key }) => key), keyed.map(({ body }) => body)];
    const rows = await connections.read(sql.selectKeys, values);

    const uses = new Map<string | null | undefined, Row>(rows.map((row) => [row['key'], row]));
    return records.map(({ keyUse }) => keyUse && repeatOf(keyUse, uses.get(keyUse.key)));
  }

  /** Commits one batch, and answers its last id. */
  async function commit(records: Batch) {
    const number = ++lastNumber;

    try {
      return lastIdIn(await insert(writerId, number, records));
    } catch (error) {
      // The writer's row is not as it was, as after a restore: its numbers are of no use any more.
      if (hasEndedBy(sql.numberTakenWords, error)) writerId = randomUUID();
      if (!(error instanceof DatabaseFailure) || error.outcome !== 'unknown') throw error;

      // The log hears of it now, for settling takes as long as the database is away.
      connections.reportWrite(error);

      const lastId = await settle(number);
      if (lastId === undefined) throw new DatabaseFailure(error.cause, 'not done');
      return lastId;
    }
  }

  function insert(writer: string, number: bigint, records: Batch) {
    const uses = records.flatMap(({ keyUse }, index) =>
      keyUse ? { ...keyUse, n: index + 1 } : [],
    );

    return connections.write(table.insertBatch, [
      writer,
      number,
      records.length,
      table.counter,
      ...columnsOf(records),
      uses.map(({ key }) => key),
      uses.map(({ body }) => body),
      uses.map(({ at }) => at),
      uses.map(({ n }) => n),
    ]);
  }

  /** The last id of a batch, once the database can say; undefined where it never will be stored. */
  async function settle(number: bigint) {
    const findOutcome = async () => {
      const rows = await connections.write(sql.settle, [writerId, number]);
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
    store: (records) => retry(() => storeOnce(records), mayPass, 2_000),

    rehearse: async (record) => {
      const keyed = record ? [{ ...record, keyUse: { key: randomUUID(), body: '', at: 0 } }] : [];

      await insert(randomUUID(), 0n, keyed).catch((error: unknown) => {
        if (!hasEndedBy(sql.rehearsedWords, error)) throw error;
      });
    },

    get outcome() {
      return outcome;
    },
  };
}

/** The statuses of records, where '' is none, and the bytes of their texts after the id. */
export function columnsOf(records: readonly PendingRecord[]): readonly [string[], Buffer[]] {
  return [
    records.map(({ indexed }) => indexed?.status ?? ''),
    records.map(({ jsonAfterId }) => Buffer.from(jsonAfterId, 'latin1')),
  ];
}

/** What a key is answered by; undefined where its use has expired, or there is none. */
function repeatOf(keyUse: IdempotencyKeyUse, known: Row | undefined): Added | undefined {
  if (known === undefined || hasExpired(Number(known['sent_at']), keyUse.at)) return undefined;
  if (known['body'] !== keyUse.body) return mismatch;

  const { pet_id: id, json } = known;
  // Only a person can have deleted the animal.
  if (!id || !json)
    return new PetstoreError('unavailable', 'The animal of this idempotency key is gone.');
  return { id: BigInt(id), json };
}

/** @throws DatabaseFailure for a reply that was damaged on its way. */
function lastIdIn([row]: readonly Row[]) {
  const digits = row?.['last_id'] ?? '';
  if (/^[0-9]{1,19}$/.test(digits)) return BigInt(digits);

  throw new DatabaseFailure(new Error('a batch was answered without its last id'), 'unknown');
}

/** Whether a batch that failed may be stored if it is sent again. */
function mayPass(error: unknown) {
  return (
    hasEndedBy(sql.numberTakenWords, error) ||
    hasEndedBy(sql.keyTakenWords, error) ||
    /^(40001|40P01)$/.test(stateOf(error))
  );
}

/** Whether a statement has ended itself by these words; its state alone may be a trigger's. */
function hasEndedBy(words: string, error: unknown) {
  return stateOf(error) === '22P02' && reasonOf(causeOf(error)).includes(words);
}
