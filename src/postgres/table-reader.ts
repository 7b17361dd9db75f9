/** Reads the records of one table. Reads of one event loop tick share a statement. */
import { performance } from 'node:perf_hooks';
import { setImmediate as endOfTick } from 'node:timers/promises';
import { closedError, type RecordStore } from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import { asByteString, int64Max, isInt64, type ByteString } from '../json.js';
import { filterOf } from '../pet.js';
import type { PetQuery, ReadQuery, TextPage } from '../storage.js';
import { ignore, type Connections } from './connections.js';
import type { Row } from './driver.js';
import { isImpossible } from './filters.js';
import * as sql from './statements.js';

/** The longest time for which a long page waits for earlier ones, in ms. */
const longPageWaitMs = 5_000;

/** The time in ms after which a long page ends early, because its client waits. */
const longPageMs = 1_000;

/** The limits of prepared pages. They are few, because each connection keeps a plan of each. */
const preparedLimits = [20, 50, 100];

/** The reads of one table. */
export interface TableReader extends Pick<RecordStore, 'get' | 'list'> {
  /** Refuses further reads, and waits until those of this tick are sent. */
  close(): Promise<void>;
}

/** Returns the last id that a table's counter gave; 0 without a counter. */
export async function readLastId(connections: Connections, table: sql.Table): Promise<bigint> {
  const [row] = await connections.read(table.selectCounter, [table.counter]);
  return BigInt(row?.['last_id'] ?? 0);
}

/** Returns the id at the beginning of a record's JSON; undefined for JSON of another form. */
function idOf(text: string): bigint | undefined {
  const digits = /^\{"id":([1-9][0-9]{0,18})[,}]/.exec(text)?.[1];
  return digits === undefined ? undefined : BigInt(digits);
}

/** @throws PetstoreError `storage_damaged` if a record's JSON has another id than its row */
function checkId({ digits, json }: Row): void {
  const id = idOf(json ?? '');
  if (id !== undefined && String(id) !== digits)
    throw new PetstoreError('storage_damaged', `The text of record ${digits} has the id ${id}.`);
}

/** Returns the reader of a table. */
export function tableReader(connections: Connections, table: sql.Table): TableReader {
  let isClosed = false;
  /** The read that all `get` calls of this tick share: its ids, and the texts by their ids. */
  let nextRead: { readonly ids: Set<bigint>; readonly texts: ReturnType<typeof read> } | undefined;
  /** The pages that were requested in this tick, by their queries. */
  const nextPages = new Map<string, Promise<TextPage>>();

  /** Reads records, and reports the success or the failure. */
  const readRecords: Connections['read'] = async (...statement) => {
    try {
      const rows = await connections.read(...statement);
      connections.reportRead(table.counter);
      return rows;
    } catch (error) {
      connections.reportRead(table.counter, error);
      throw error;
    }
  };

  /** The latest long page. Long pages are read one at a time, to save connections and memory. */
  let lastLong: Promise<unknown> = Promise.resolve();

  /**
   * Reads a record. All records of one event loop tick share a statement, which serves 2.5 to 3.4
   * times as many a second.
   */
  async function get(id: bigint) {
    if (isClosed) throw closedError();
    if (!isInt64(id)) return undefined;

    const { ids, texts } = (nextRead ??= beginRead());
    ids.add(id);
    if (ids.size === sql.maxIds) nextRead = undefined;

    const text = (await texts).get(String(id));
    // A long text has a statement of its own, because many in one result would fill the memory.
    return text === null ? ((await read([id])).get(String(id)) ?? undefined) : text;
  }

  function beginRead() {
    const ids = new Set<bigint>();
    const texts = endOfTick().then(() => {
      // A full read was replaced by the next one already.
      if (nextRead?.ids === ids) nextRead = undefined;
      return read([...ids]);
    });
    return { ids, texts };
  }

  /** Returns texts by the digits of their ids; null for a long text. */
  async function read(ids: readonly bigint[]) {
    // PostgreSQL assumes ten ids in an array. For fewer it would plan each time instead of using
    // the plan that it kept.
    const [statement, value] =
      ids.length === 1 ? [table.selectOne, ids[0]] : [table.selectMany, ids];
    const rows = await readRecords(statement, [value]);
    return new Map<string, ByteString | null>(
      rows.map(({ digits, json }) => [digits ?? '', json ?? null]),
    );
  }

  /**
   * Reads a page. Equal requests of one event loop tick share it, which serves 2.8 times as many a
   * second (`make bench PARTS=storage`).
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
    // The name holds each member of the query, because it alone identifies the page.
    const name = JSON.stringify(
      Object.entries(page).map(([member, value]) => [member, `${value}`]),
    );
    const begin = () => {
      nextPages.delete(name);
      return readPage(page);
    };

    const reading = nextPages.get(name) ?? endOfTick().then(begin);
    nextPages.set(name, reading);
    return reading;
  }

  async function readPage(page: PetQuery): Promise<TextPage> {
    const short = await readShortPage(page);
    if (short !== undefined) return short;

    const overdueAt = performance.now() + longPageWaitMs;
    const reading = lastLong.then(() => {
      if (performance.now() > overdueAt)
        throw new PetstoreError('unavailable', 'Too many requests for long pages.');
      return readLongPage(page);
    });
    lastLong = reading.then(ignore, ignore);
    return reading;
  }

  /**
   * Reads a page in one result; returns undefined if a text is long or the last id may be wrong.
   */
  async function readShortPage(page: PetQuery) {
    const { after = 0n, limit } = page;
    // One more text shows if there is a next page.
    const select = table.selectPage({ ...page, limit: limit + 1 });
    const isPrepared = preparedLimits.includes(limit);
    const [row] = await readRecords(select.sql, select.values, { isPrepared });

    const texts = row?.['page']?.split('\n').map(asByteString) ?? [];
    if (texts.includes(sql.tooLong)) return undefined;
    if (texts.length <= limit) return { texts };

    // A text changed by hand may begin otherwise, or have another id than its row. The next page
    // would then begin too early or too late.
    const near = [after, ...texts.slice(-3).map(idOf)];
    const isInOrder = near.every(
      (id, at) => id !== undefined && (at === 0 || id > (near[at - 1] ?? id)),
    );
    const next = near.at(-2);
    return isInOrder && next ? { texts: texts.slice(0, limit), next } : undefined;
  }

  /**
   * Reads a page in several results, each within the time of a statement; a slow page ends early.
   */
  async function readLongPage(page: PetQuery) {
    const { after = 0n, limit } = page;
    const endAt = performance.now() + longPageMs;
    const texts: ByteString[] = [];

    for (let next = after, bytesLeft = sql.maxPageBytes - '['.length; ; ) {
      const most = Math.min(limit - texts.length, sql.maxIds);
      const bytes = Math.min(bytesLeft, sql.maxResultBytes);
      const firstBytes = texts.length === 0 ? Number.MAX_SAFE_INTEGER : bytesLeft;
      const wanted = { ...page, after: next, limit: most + 1 };
      const select = table.selectLongTexts(wanted, bytes, firstBytes);
      const rows = await readRecords(select.sql, select.values, { isPrepared: false });

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
    close: () => {
      isClosed = true;
      return endOfTick();
    },
  };
}
