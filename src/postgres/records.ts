/**
 * Records of one kind in the database: those that wait together are added, and read, in one
 * statement.
 */
import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import {
  commitWatchers,
  groupCommit,
  checkOnce,
  closedError,
  inFlight,
  isTooFar,
  mismatch,
  type Unnumbered,
  checkQuery,
} from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import { asByteString, int64Max, isInt64, type ByteString } from '../json.js';
import type { Log } from '../log.js';
import { isPetStatus, type PetStatus } from '../pet.js';
import type { InsertOnce, PetQuery, ReadQuery, StoredText, TextPage } from '../storage.js';
import {
  retry,
  causeOf,
  DatabaseFailure,
  ignore,
  stateOf,
  type Connections,
} from './connections.js';
import type { Row } from './driver.js';
import * as sql from './tables.js';

/** A record that waits for its commit, with its idempotency key. */
interface Waiting extends Unnumbered {
  readonly once?: InsertOnce;
}

/** Or why its idempotency key does not allow it. */
type Added = StoredText | PetstoreError;

/** For a long page to begin. */
const turnMs = 5_000;
/** Behind that a long page ends, for its reader waits. */
const pageMs = 1_000;
/** Few, for each connection keeps a plan of each. */
const preparedLimits = [20, 50, 100];

/** One kind of records, with the members of a `PetStorage` for it. */
export function postgresRecords(connections: Connections, table: sql.Table, log: Log) {
  const writer = writerInto(table, connections);
  // A writer has one batch at a time.
  const trialWriter = writerInto(table, connections);
  const commits = groupCommit<Waiting, Added>({
    commit: (records) => commit(records).finally(() => endKeys(records)),
    abandoned: (record) => endKeys([record]),
    // As a text, as bytes and as hexadecimal digits, which the driver makes of bytes in a list.
    bytesOf: ({ rest, once }) => 4 * rest.length + (once === undefined ? 128 : 640),
    hung: 'The database does not answer.',
  });
  const keysUnderWay = new Set<string>();
  const watchers = commitWatchers(log);
  let together:
    | { readonly ids: Set<bigint>; readonly found: ReturnType<typeof findTexts> }
    | undefined;
  const pages = new Map<string, Promise<TextPage>>();
  /** One after the other, or they would take all connections, and add up in memory. */
  let lastLong: Promise<unknown> = Promise.resolve();
  /** Whether adding failed since `ready` last found that it works. */
  let hasFailed = false;
  /**
   * A record of the last batch that was stored, be it a repeat, or else what failed first: `ready`
   * tries with it.
   */
  let sample: Waiting | undefined;
  let readiness: Promise<void> | undefined;
  let closing: Promise<unknown> | undefined;

  async function add(record: Waiting): Promise<StoredText> {
    const added = await commits.add(record);
    if (added instanceof PetstoreError) throw added;
    return added;
  }

  /** For animals alone. What is under way in another server is waited for. */
  async function insertOnce(unkeyed: Unnumbered, once: InsertOnce) {
    checkOnce(once);
    if (keysUnderWay.has(once.key)) throw inFlight;
    const record = { ...unkeyed, once };
    keysUnderWay.add(once.key);
    return add(record);
  }

  function endKeys(records: readonly Waiting[]) {
    for (const { once } of records) if (once !== undefined) keysUnderWay.delete(once.key);
  }

  /**
   * Together with all ids of this event-loop turn, never with those before: 2.5 to 3.4 times as
   * many a second.
   */
  async function get(id: bigint): Promise<ByteString | undefined> {
    if (closing) throw closedError();
    if (!isInt64(id)) return undefined;
    const { ids, found } = (together ??= newTogether());
    ids.add(id);
    if (ids.size === sql.maxIds) together = undefined;
    const text = (await found).get(String(id));
    // A long one by a statement of its own: in one, all of them would fill the memory.
    return text === null ? ((await findTexts([id])).get(String(id)) ?? undefined) : text;
  }

  function newTogether() {
    const ids = new Set<bigint>();
    const found = nextTurn().then(() => {
      if (together?.ids === ids) together = undefined;
      return findTexts([...ids]);
    });
    return { ids, found };
  }

  /** By the digits of their ids; null for a long one. */
  async function findTexts(
    ids: readonly bigint[],
  ): Promise<ReadonlyMap<string, ByteString | null>> {
    // PostgreSQL guesses that an array has ten ids; with fewer it makes a new plan each time, in
    // place of one it kept.
    const [statement, value] =
      ids.length === 1 ? [table.selectOne, ids[0]] : [table.selectMany, ids];
    const rows = await connections.read(statement, [value]);
    return new Map(rows.map(({ digits, json }) => [digits ?? '', json ?? null]));
  }

  /**
   * Once for all who ask for this page in this turn: 2.8 times as many a second
   * (`test/postgres/pages.ts same`).
   */
  async function list(query: PetQuery): Promise<TextPage> {
    if (closing) throw closedError();
    checkQuery(query);
    const read: ReadQuery<'limit' | 'status' | 'after'> = query;
    const { status, after = 0n } = read;
    const limit = Math.min(read.limit, 1_000_000);
    // No text of a caller's comes into a statement.
    if (after > int64Max || (status !== undefined && !isPetStatus(status))) return { texts: [] };
    const from = after < 0n ? 0n : after;
    const name = `${limit} ${from} ${status}`;
    const ask = () => {
      pages.delete(name);
      return pageOf(from, limit, status);
    };
    const page = pages.get(name) ?? nextTurn().then(ask);
    pages.set(name, page);
    return page;
  }

  async function pageOf(
    from: bigint,
    limit: number,
    status: PetStatus | undefined,
  ): Promise<TextPage> {
    const isPrepared = preparedLimits.includes(limit);
    // One more says whether there is a next page.
    const select = table.selectPage(limit + 1, status);
    const [row] = await connections.read(select, [from], { isPrepared });
    const page = row?.['page'] ?? undefined;
    const shorts = page === undefined ? [] : page.split('\n').map(asByteString);
    if (!shorts.includes(sql.tooLong)) {
      if (shorts.length <= limit) return { texts: shorts };
      const lastId = /^\{"id":([1-9][0-9]{0,18})[,}]/.exec(shorts[limit - 1] ?? '')?.[1];
      // It may have been changed by hand.
      if (lastId !== undefined) return { texts: shorts.slice(0, limit), next: BigInt(lastId) };
    }
    const overdueAt = performance.now() + turnMs;
    const reading = lastLong.then(() => {
      if (performance.now() > overdueAt)
        throw new PetstoreError('unavailable', 'Too many long pages are asked for.');
      return longPageOf(from, limit, status);
    });
    lastLong = reading.then(ignore, ignore);
    return reading;
  }

  /**
   * Answer by answer, and ended early where they come slowly: each is there within the time of a
   * statement.
   */
  async function longPageOf(
    from: bigint,
    limit: number,
    status: PetStatus | undefined,
  ): Promise<TextPage> {
    const endAt = performance.now() + pageMs;
    const texts: ByteString[] = [];
    for (let after = from, bytesLeft = sql.maxPageBytes; ; ) {
      const most = Math.min(limit - texts.length, sql.maxIds);
      const select = table.selectLongTexts(
        most + 1,
        Math.min(bytesLeft, sql.maxAnswerBytes),
        status,
      );
      const rows = await connections.read(select, [after], { isPrepared: false });
      const found = rows.slice(0, most).flatMap(({ json }) => json ?? []);
      texts.push(...found);
      const last = rows[found.length - 1]?.['digits'];
      if (rows.length === found.length || !last) return { texts };
      after = BigInt(last);
      for (const text of found) bytesLeft -= text.length;
      if (texts.length === limit || bytesLeft <= 0 || performance.now() > endAt)
        return { texts, next: after };
    }
  }

  async function commit(records: readonly Waiting[]): Promise<readonly Added[]> {
    const startedAt = performance.now();
    try {
      const { added, count } = await writer.store(records);
      connections.reportWrite();
      if (count === 0) return added;
      sample = records.find((_, index) => !(added[index] instanceof PetstoreError));
      watchers.tell({ count, syncMilliseconds: performance.now() - startedAt });
      return added;
    } catch (error) {
      hasFailed = true;
      sample ??= records[0];
      connections.reportWrite(error);
      throw error;
    }
  }

  /**
   * Reads the counter, and a page behind the last record, for what is damaged in one harms no
   * other.
   */
  async function readEnd(): Promise<bigint> {
    const [row] = await connections.read(sql.selectCounter, [table.counter]);
    const lastId = BigInt(row?.['last_id'] ?? 0);
    await list({ limit: 20, after: lastId });
    return lastId;
  }

  /**
   * @throws DatabaseFailure without the right to read or to add; what else an add may fail by may
   * pass
   */
  async function open(): Promise<void> {
    await readEnd();
    await trialWriter.prove([]).catch((error: unknown) => {
      if (stateOf(error) === '42501') throw error;
    });
  }

  async function askReadiness(): Promise<void> {
    const isOnTrial = hasFailed;
    // Set again by whatever fails meanwhile.
    hasFailed = false;
    try {
      if ((await readEnd()) === int64Max)
        throw new PetstoreError('unavailable', 'There are no ids left.');
      if (isOnTrial && sample) await trialWriter.prove([sample]);
      // Only a commit waits for a synchronous standby.
      await trialWriter.store([]);
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  }

  return {
    texts: { insert: (record: Unnumbered) => add(record), insertOnce, get, list },
    open,
    get waiting() {
      return commits.waiting;
    },
    onCommit: watchers.add,
    ready: async () => {
      const late = new PetstoreError('unavailable', 'The database does not answer.');
      if (commits.hung || writer.isInDoubt || trialWriter.isInDoubt) throw late;
      readiness ??= askReadiness().finally(() => (readiness = undefined));
      await Promise.race([
        readiness,
        wait(4_000, undefined, { ref: false }).then(() => Promise.reject(late)),
      ]);
    },
    // What this turn has asked for is sent in the next.
    close: () => (closing = Promise.all([commits.close(), nextTurn()])),
  };
}

/** Adds batches in the name of one writer, one at a time, and finds out what became of each. */
function writerInto(table: sql.Table, connections: Connections) {
  let writerId = randomUUID();
  let lastBatch = 0n;
  /** Whether nobody knows what became of the last batch. */
  let isInDoubt = false;

  /**
   * Stores records in order. A repeat of a key is answered after a commit of this very call: only
   * then is the first on a synchronous standby too. @throws DatabaseFailure where none is there, or
   * nobody can say
   */
  async function store(records: readonly Waiting[]) {
    const used = await usesOf(records);
    const unused = records.filter((_, index) => used[index] === undefined);
    let id = (await insert(unused)) - BigInt(unused.length);
    const added = records.map(({ rest }, index): Added => {
      const use = used[index];
      if (use !== undefined) return use;
      id++;
      return { id, json: asByteString(`{"id":${id}${rest}`) };
    });
    return { added, count: unused.length };
  }

  /**
   * Whether to try again; from then on as another writer, where this one's row is not as it was:
   * after a restore.
   */
  function mayPass(error: unknown): boolean {
    // By the words, for the state alone may be a trigger's.
    const reason = stateOf(error) === '22P02' ? reasonOf(causeOf(error)) : '';
    const isOfWriter = reason.includes(sql.numberTakenWords);
    if (isOfWriter) writerId = randomUUID();
    // Or another server has used a key since we looked.
    return (
      isOfWriter ||
      reason.includes(sql.keyTakenWords) ||
      ['40001', '40P01'].includes(stateOf(error))
    );
  }

  /** Adds one batch, which may be empty, and answers its last id. */
  async function insert(records: readonly Waiting[]): Promise<bigint> {
    const batch = ++lastBatch;
    try {
      return lastIdIn(await connections.write(table.insertBatch, valuesOf(records, batch)));
    } catch (error) {
      if (!(error instanceof DatabaseFailure) || error.outcome !== 'unknown') throw error;
      // Now, for the search may take as long as the database is away.
      connections.reportWrite(error);
      return settle(batch, error);
    }
  }

  function valuesOf(records: readonly Waiting[], batch: bigint, by = writerId): unknown[] {
    const statuses = records.map(({ status }) => status ?? '');
    const rests = records.map(({ rest }) => Buffer.from(rest, 'latin1'));
    const uses = records.flatMap(({ once }, index) =>
      once === undefined ? [] : { ...once, n: index + 1 },
    );
    const keys = [
      uses.map(({ key }) => key),
      uses.map(({ body }) => body),
      uses.map(({ at }) => at),
    ];
    return [
      by,
      batch,
      records.length,
      table.counter,
      statuses,
      rests,
      ...keys,
      uses.map(({ n }) => n),
    ];
  }

  /**
   * Stores records, each with a key of its own, and undoes that. @throws DatabaseFailure as an add
   */
  async function prove(records: readonly Waiting[]): Promise<void> {
    const keyed = records.map((record) => ({
      ...record,
      once: { key: randomUUID(), body: '', at: 0 },
    }));
    const values = valuesOf(keyed, 0n, randomUUID());
    await connections.write(table.insertBatch, values).catch((error: unknown) => {
      if (!reasonOf(causeOf(error)).includes(sql.rehearsedWords)) throw error;
    });
  }

  /**
   * The last id of a batch, when the database can say. @throws `failure` where it never will be
   * there
   */
  function settle(batch: bigint, failure: DatabaseFailure): Promise<bigint> {
    const ask = async () => {
      const rows = await connections.write(sql.settle, [writerId, batch]);
      if (rows.length === 0 || rows[0]?.['last_id'] === '-1') throw failure;
      return lastIdIn(rows);
    };
    isInDoubt = true;
    return retry(ask, (error) => error !== failure && error instanceof DatabaseFailure).finally(
      () => {
        isInDoubt = false;
      },
    );
  }

  /** What the key of each record was used for; undefined for a new one, or none. */
  async function usesOf(records: readonly Waiting[]): Promise<readonly (Added | undefined)[]> {
    const asked = records.flatMap(({ once }) => once ?? []);
    if (asked.length === 0) return records.map(() => undefined);
    const values = [asked.map(({ key }) => key), asked.map(({ body }) => body)];
    const rows = await connections.read(sql.selectKeys, values);
    const uses = new Map<string | null | undefined, Row>(rows.map((row) => [row['key'], row]));
    return records.map(({ once }) => once && repeated(once, uses.get(once.key)));
  }

  return {
    store: (records: readonly Waiting[]) => retry(() => store(records), mayPass, 2_000),
    prove,
    get isInDoubt() {
      return isInDoubt;
    },
  };
}

function repeated(once: InsertOnce, row: Row | undefined): Added | undefined {
  if (row === undefined || isTooFar(Number(row['sent_at']), once.at)) return undefined;
  if (row['body'] !== once.body) return mismatch;
  const { pet_id: id, json } = row;
  // Deleted by hand.
  if (!id || !json)
    return new PetstoreError('unavailable', 'The animal of this idempotency key is gone.');
  return { id: BigInt(id), json };
}

/** @throws DatabaseFailure for a reply that was damaged on its way */
function lastIdIn([row]: readonly Row[]): bigint {
  const digits = row?.['last_id'] ?? '';
  if (/^[0-9]{1,19}$/.test(digits)) return BigInt(digits);
  throw new DatabaseFailure(new Error('a batch was answered without its last id'), 'unknown');
}
