/**
 * Records of one kind in the database. Those that wait together are added in one batch, and what is
 * read in one turn of the event loop shares a statement.
 */
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import {
  closedError,
  commitWatchers,
  groupCommit,
  type KeyedRecord,
  type RecordStore,
  type PendingRecord,
} from '../engine/index.js';
import { inFlight, PetstoreError } from '../errors.js';
import { asByteString, int64Max, isInt64, type ByteString } from '../json.js';
import type { Log } from '../log.js';
import { filterOf } from '../pet.js';
import type { IdempotencyKeyUse, PetQuery, PetStorage, ReadQuery, TextPage } from '../storage.js';
import { ignore, stateOf, type Connections } from './connections.js';
import type { Row } from './driver.js';
import { isImpossible } from './filters.js';
import * as sql from './tables.js';
import { writerTo, type Added, type Batch } from './writer.js';

/** How long a long page waits for those before it. */
const longPageWaitMs = 5_000;

/** How long a long page is read on, for its reader waits. */
const longPageMs = 1_000;

/** How long it may take to prove readiness. */
const readinessMs = 4_000;

/** The limits whose pages are prepared; few, for each connection keeps a plan of each. */
const preparedLimits = [20, 50, 100];

/** One kind of records, with the members of a `PetStorage` for it. */
export interface PostgresRecords
  extends Required<Pick<PetStorage, 'waiting' | 'onCommit' | 'ready'>> {
  /** Reads and adds the records. */
  readonly store: RecordStore;

  /**
   * Tries whether records can be read and added.
   * @throws DatabaseFailure where they cannot be read, or the right to add is missing. Whatever
   * else keeps them from being added may pass.
   */
  open(): Promise<void>;

  /** Refuses all from now on, and waits for what is to be added. */
  close(): Promise<unknown>;
}

/** The records of a table. */
export function postgresRecords(
  connections: Connections,
  table: sql.Table,
  log: Log,
): PostgresRecords {
  const reader = readerOf(connections, table);
  const writer = writerTo(connections, table);
  // A writer has one batch at a time, and readiness must not wait for what is added.
  const readinessWriter = writerTo(connections, table);

  const commits = groupCommit<KeyedRecord, Added>({
    commit: (records) => commit(records).finally(() => endKeys(records)),
    abandoned: (record) => endKeys([record]),
    // The driver makes a text of it, then bytes, and in a list hexadecimal digits of these.
    bytesOf: ({ jsonAfterId, keyUse }) =>
      4 * jsonAfterId.length + (keyUse === undefined ? 128 : 640),
    hung: 'The database does not answer.',
  });

  const keysUnderWay = new Set<string>();
  const watchers = commitWatchers(log);

  /** Whether adding has failed since readiness was last proved. */
  let hasFailed = false;
  /** What to rehearse: a record that was added by the last batch, else the first that failed. */
  let rehearsalRecord: KeyedRecord | undefined;
  let readiness: Promise<void> | undefined;

  async function add(record: KeyedRecord) {
    const added = await commits.add(record);
    if (added instanceof PetstoreError) throw added;
    return added;
  }

  /** For animals alone. A use that is under way in another server is waited for. */
  async function insertOnce(record: PendingRecord, keyUse: IdempotencyKeyUse) {
    if (keysUnderWay.has(keyUse.key)) throw inFlight;

    keysUnderWay.add(keyUse.key);
    return add({ ...record, keyUse });
  }

  function endKeys(records: Batch) {
    for (const { keyUse } of records) if (keyUse !== undefined) keysUnderWay.delete(keyUse.key);
  }

  async function commit(records: Batch) {
    const startedAt = performance.now();

    try {
      const { added, fresh } = await writer.store(records);
      connections.reportWrite();
      if (fresh.length === 0) return added;

      rehearsalRecord = fresh[0];
      watchers.tell({ count: fresh.length, syncMilliseconds: performance.now() - startedAt });
      return added;
    } catch (error) {
      hasFailed = true;
      rehearsalRecord ??= records[0];
      connections.reportWrite(error);
      throw error;
    }
  }

  /** Reads the last id given, and a page behind it, where no damaged record can be. */
  async function readEnd() {
    const lastId = await readLastId(connections, table);
    await reader.list({ limit: 20, after: lastId });
    return lastId;
  }

  async function proveReadiness() {
    const mustRehearse = hasFailed;
    // What fails meanwhile sets it again.
    hasFailed = false;

    try {
      if ((await readEnd()) === int64Max)
        throw new PetstoreError('unavailable', 'There are no ids left.');

      if (mustRehearse && rehearsalRecord) await readinessWriter.rehearse(rehearsalRecord);
      // Only a commit waits for a synchronous standby.
      await readinessWriter.store([]);
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  }

  async function ready() {
    const noAnswer = new PetstoreError('unavailable', 'The database does not answer.');

    const outcomes = [writer.outcome, readinessWriter.outcome];
    if (commits.hung || outcomes.includes('unknown')) throw noAnswer;

    readiness ??= proveReadiness().finally(() => (readiness = undefined));
    await Promise.race([
      readiness,
      wait(readinessMs, undefined, { ref: false }).then(() => Promise.reject(noAnswer)),
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

/** The last id that a table's counter gave. */
export async function readLastId(connections: Connections, table: sql.Table): Promise<bigint> {
  const [row] = await connections.read(sql.selectCounter, [table.counter]);
  return BigInt(row?.['last_id'] ?? 0);
}

/** The id that a text begins with, as our own do; undefined for a text that begins otherwise. */
function idOf(text: string): bigint | undefined {
  const digits = /^\{"id":([1-9][0-9]{0,18})[,}]/.exec(text)?.[1];
  return digits === undefined ? undefined : BigInt(digits);
}

/** @throws PetstoreError `storage_damaged` for a text that says another id than its row has. */
function checkId({ digits, json }: Row): void {
  const id = idOf(json ?? '');
  if (id !== undefined && String(id) !== digits)
    throw new PetstoreError('storage_damaged', `The text of record ${digits} says the id ${id}.`);
}

/** Reads records by their ids, and pages of them. */
function readerOf(connections: Connections, table: sql.Table) {
  let isClosed = false;
  /** The ids that are read in one statement, and the texts by their ids' digits. */
  let nextRead: { readonly ids: Set<bigint>; readonly texts: ReturnType<typeof read> } | undefined;
  /** The pages that are read in this turn, by all that says which they are. */
  const nextPages = new Map<string, Promise<TextPage>>();
  /** Long pages come one after the other: they would take all connections, and add up in memory. */
  let lastLong: Promise<unknown> = Promise.resolve();

  /**
   * Reads a record together with all that are read in this turn of the event loop, never with those
   * before: 2.5 to 3.4 times as many a second.
   */
  async function get(id: bigint) {
    if (isClosed) throw closedError();
    if (!isInt64(id)) return undefined;

    const { ids, texts } = (nextRead ??= beginRead());
    ids.add(id);
    if (ids.size === sql.maxIds) nextRead = undefined;

    const text = (await texts).get(String(id));
    // A long text has a statement of its own: in one, all of them would fill the memory.
    return text === null ? ((await read([id])).get(String(id)) ?? undefined) : text;
  }

  function beginRead() {
    const ids = new Set<bigint>();
    const texts = nextTurn().then(() => {
      // A full batch has given its place to the next one already.
      if (nextRead?.ids === ids) nextRead = undefined;
      return read([...ids]);
    });
    return { ids, texts };
  }

  /** The texts of ids, by their digits; null for a long one. */
  async function read(ids: readonly bigint[]) {
    // PostgreSQL guesses that an array has ten ids. For fewer it makes a plan each time, in place
    // of the one that it kept.
    const [statement, value] =
      ids.length === 1 ? [table.selectOne, ids[0]] : [table.selectMany, ids];
    const rows = await connections.read(statement, [value]);
    return new Map<string, ByteString | null>(
      rows.map(({ digits, json }) => [digits ?? '', json ?? null]),
    );
  }

  /**
   * Reads a page once for all who want it in this turn: 2.8 times as many a second
   * (`make bench PARTS=storage`).
   */
  async function list(query: PetQuery) {
    if (isClosed) throw closedError();

    const { limit, after = 0n }: ReadQuery<'limit' | 'after'> = query;
    if (after > int64Max || isImpossible(query)) return { texts: [] };

    const page: PetQuery = {
      ...filterOf(query),
      after: after < 0n ? 0n : after,
      limit: Math.min(limit, 1_000_000),
    };
    // The name has each member of the query, because it alone tells one page from another.
    const name = JSON.stringify(
      Object.entries(page).map(([member, value]) => [member, `${value}`]),
    );
    const begin = () => {
      nextPages.delete(name);
      return readPage(page);
    };

    const reading = nextPages.get(name) ?? nextTurn().then(begin);
    nextPages.set(name, reading);
    return reading;
  }

  async function readPage(page: PetQuery): Promise<TextPage> {
    const short = await readShortPage(page);
    if (short !== undefined) return short;

    const overdueAt = performance.now() + longPageWaitMs;
    const reading = lastLong.then(() => {
      if (performance.now() > overdueAt)
        throw new PetstoreError('unavailable', 'Too many long pages are asked for.');
      return readLongPage(page);
    });
    lastLong = reading.then(ignore, ignore);
    return reading;
  }

  /** Reads a page in one answer; undefined where a text is long, or the last id is in doubt. */
  async function readShortPage(page: PetQuery) {
    const { after = 0n, limit } = page;
    // One text more says whether there is a next page.
    const select = table.selectPage({ ...page, limit: limit + 1 });
    const isPrepared = preparedLimits.includes(limit);
    const [row] = await connections.read(select.sql, select.values, { isPrepared });

    const texts = row?.['page']?.split('\n').map(asByteString) ?? [];
    if (texts.includes(sql.tooLong)) return undefined;
    if (texts.length <= limit) return { texts };

    // A text that was changed by hand may begin otherwise, or say an id that is not its own, which
    // would lead back or over others.
    const near = [after, ...texts.slice(-3).map(idOf)];
    const isInOrder = near.every(
      (id, at) => id !== undefined && (at === 0 || id > (near[at - 1] ?? id)),
    );
    const next = near.at(-2);
    return isInOrder && next ? { texts: texts.slice(0, limit), next } : undefined;
  }

  /** Reads a page answer by answer, each in the time of a statement; a slow one ends early. */
  async function readLongPage(page: PetQuery) {
    const { after = 0n, limit } = page;
    const endAt = performance.now() + longPageMs;
    const texts: ByteString[] = [];

    for (let next = after, bytesLeft = sql.maxPageBytes - '['.length; ; ) {
      const most = Math.min(limit - texts.length, sql.maxIds);
      const bytes = Math.min(bytesLeft, sql.maxAnswerBytes);
      const firstBytes = texts.length === 0 ? Number.MAX_SAFE_INTEGER : bytesLeft;
      const wanted = { ...page, after: next, limit: most + 1 };
      const select = table.selectLongTexts(wanted, bytes, firstBytes);
      const rows = await connections.read(select.sql, select.values, { isPrepared: false });

      const found = rows.slice(0, most).flatMap(({ json }) => json ?? []);
      texts.push(...found);
      rows.forEach(checkId);
      if (rows.length === found.length) return { texts };

      next = BigInt(rows[found.length - 1]?.['digits'] ?? next);
      for (const text of found) bytesLeft -= text.length + ','.length;
      const isFull = texts.length === limit || bytesLeft <= 0 || found.length === 0;
      if (isFull || performance.now() > endAt) return { texts, next };
    }
  }

  return {
    get,
    list,
    /** Refuses all from now on, and waits until what was read in this turn is sent. */
    close: () => {
      isClosed = true;
      return nextTurn();
    },
  };
}
