/** Records of one kind in the database: those that wait together are added, and read, in one statement. */
import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { reasonOf, PetstoreError } from '../errors.js';
import { int64Max, isInt64 } from '../json.js';
import { checkQuery, isPetStatus, type PetStatus } from '../pet.js';
import type { Commit, InsertOnce, PetQuery, StoredText, TextPage, Texts } from '../storage.js';
import { GroupCommit } from '../journal/index.js';
import { checkOnce, closedError, inFlight, isTooFar, mismatch } from '../memory/index.js';
import { again, causeOf, DatabaseFailure, stateOf, type Connections } from './connections.js';
import type { Row } from './driver.js';
import * as sql from './tables.js';

/** A record that has no id yet. */
export interface Unnumbered {
  readonly status: PetStatus | undefined;
  /** What stands after the id in its JSON text, a byte string. */
  readonly rest: string;
  readonly once?: InsertOnce | undefined;
}

/** Where the rest begins in the JSON text of a record whose id has one digit. */
export const restAt = '{"id":0'.length;

/** Its text, or why its idempotency key does not allow it. */
type Added = StoredText | PetstoreError;

/** For how long a batch that collided with another's is sent again. */
const againMs = 2_000;
/** How long `/readyz` waits for the database. */
const readyMs = 4_000;
/** The most rows of a page, whatever is asked for. */
const maxLimit = 1_000_000;
/** The limits of pages that are prepared: few, for each connection keeps a plan of each. */
const preparedLimits = [20, 50, 100];

/** Texts by the digits of their id; null for a long one. */
type Found = ReadonlyMap<string, string | null>;
/** Ids that go in one statement, and what it finds. */
type Together = { readonly ids: Set<bigint>; readonly found: Promise<Found> };

/** One kind of records in one database. */
export class PostgresRecords<Draft> implements Texts<Draft, PetQuery> {
  readonly #connections: Connections;
  readonly #unnumbered: (draft: Draft) => Unnumbered;
  readonly #table: sql.Table;
  readonly #batches: Batches;
  /** Those that `ready` tries, beside the others. */
  readonly #trials: Batches;
  readonly #commits: GroupCommit<Unnumbered, Added>;
  readonly #keysUnderWay = new Set<string>();
  readonly #watchers: ((commit: Commit) => void)[] = [];
  /** What this event-loop turn asks for. */
  #together: Together | undefined;
  readonly #pages = new Map<string, Promise<TextPage>>();
  /** What adding failed by last, until it is known to work. */
  #failure: unknown;
  /** What was stored last, or else what failed first. */
  #sample: Unnumbered | undefined;
  #readiness: Promise<void> | undefined;
  #isClosed = false;

  constructor(connections: Connections, unnumbered: (draft: Draft) => Unnumbered, table: sql.Table) {
    this.#connections = connections;
    this.#unnumbered = unnumbered;
    this.#table = table;
    this.#batches = new Batches(connections, table);
    this.#trials = new Batches(connections, table);
    this.#commits = new GroupCommit({
      commit: (records) => this.#commit(records).finally(() => this.#endKeys(records)),
      abandoned: (record) => this.#endKeys([record]),
      // As a text, as bytes and as hexadecimal digits.
      bytesOf: ({ rest, once }) => 4 * rest.length + (once === undefined ? 128 : 640),
      hung: 'The database does not answer.',
    });
  }

  /** Asks the database whether it is there. @throws DatabaseFailure */
  async open(): Promise<void> {
    this.#checkOpen();
    await this.#counter();
  }

  get waiting(): number {
    return this.#commits.waiting;
  }

  onCommit(watcher: (commit: Commit) => void): void {
    this.#watchers.push(watcher);
  }

  async insert(draft: Draft): Promise<StoredText> {
    return storedOf(await this.#commits.add(this.#unnumbered(draft)));
  }

  /** For animals alone. What is under way in another server is waited for. */
  async insertOnce(draft: Draft, once: InsertOnce): Promise<StoredText> {
    checkOnce(once);
    this.#checkOpen();
    if (this.#keysUnderWay.has(once.key)) throw inFlight;
    const record = { ...this.#unnumbered(draft), once };
    this.#keysUnderWay.add(once.key);
    return storedOf(await this.#commits.add(record));
  }

  /** Together with all ids of this event-loop turn, never with those before: 2.5 to 3.4 times as many a second. */
  async get(id: bigint): Promise<string | undefined> {
    this.#checkOpen();
    if (!isInt64(id)) return undefined;
    const { ids, found } = (this.#together ??= this.#newTogether());
    ids.add(id);
    if (ids.size === sql.maxIds) this.#together = undefined;
    const text = (await found).get(String(id));
    // Long ones one by one: together they would fill the memory.
    return text === null ? ((await this.#textsOf([id], true)).get(String(id)) ?? undefined) : text;
  }

  /** Once for all who ask for this page in this turn: 2.8 times as many a second, by `pages.ts same`. */
  async list(query: PetQuery): Promise<TextPage> {
    checkQuery(query);
    this.#checkOpen();
    const { status, after = 0n } = query;
    const limit = Math.min(query.limit, maxLimit);
    // No text of a caller's comes into a statement.
    if (after > int64Max || (status !== undefined && !isPetStatus(status))) return { texts: [] };
    const from = after < 0n ? 0n : after;
    const name = `${limit} ${from} ${status}`;
    const known = this.#pages.get(name);
    if (known !== undefined) return known;
    const page = nextTurn().then(() => {
      this.#pages.delete(name);
      return this.#pageOf(from, limit, status);
    });
    this.#pages.set(name, page);
    return page;
  }

  /** Asks the database, once for all who ask at the same time. */
  async ready(): Promise<void> {
    this.#checkOpen();
    const late = new PetstoreError('unavailable', 'The database does not answer.');
    if (this.#commits.hung) throw late;
    this.#readiness ??= this.#askReadiness().finally(() => (this.#readiness = undefined));
    await Promise.race([this.#readiness, wait(readyMs, undefined, { ref: false }).then(() => Promise.reject(late))]);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // What this turn has asked for is sent in the next.
    await Promise.all([this.#commits.close(), nextTurn()]);
  }

  async #askReadiness(): Promise<void> {
    let counter = await this.#counter();
    if (counter['read_only'] !== 'off') {
      // That may be true of the session alone.
      this.#connections.renew();
      counter = await this.#counter();
    }
    // A plugin's counter is made with its first record.
    const isMissing = counter['last_id'] === null && this.#table === sql.petTable;
    if (counter['read_only'] !== 'off' || isMissing)
      throw new PetstoreError('unavailable', 'The database takes no writes.');
    if (counter['last_id'] === String(int64Max)) throw new PetstoreError('unavailable', 'There are no ids left.');
    const [failure, sample] = [this.#failure, this.#sample];
    if (failure === undefined || sample === undefined) return;
    await this.#trials.tryOut(sample);
    await this.list({ limit: 1 });
    // What failed meanwhile is another failure.
    if (this.#failure === failure) this.#failure = undefined;
  }

  async #counter(): Promise<Row> {
    const [row] = await this.#connections.read(sql.selectCounter, [this.#table.counter], { isPrepared: true });
    return row ?? {};
  }

  async #commit(records: readonly Unnumbered[]): Promise<readonly Added[]> {
    const startedAt = performance.now();
    const { added, count } = await this.#batches.store(records).catch((error: unknown) => {
      this.#failure = error;
      this.#sample ??= records[0];
      throw error;
    });
    if (count === 0) return added;
    this.#failure = undefined;
    this.#sample = records.find((_, index) => !(added[index] instanceof PetstoreError));
    this.#connections.tell('be written to');
    for (const watch of this.#watchers) {
      try {
        watch({ count, syncMilliseconds: performance.now() - startedAt });
      } catch (error) {
        // The records are kept all the same.
        this.#connections.log('error', 'a watcher of commits failed', { error: reasonOf(error) });
      }
    }
    return added;
  }

  #endKeys(records: readonly Unnumbered[]): void {
    for (const { once } of records) if (once !== undefined) this.#keysUnderWay.delete(once.key);
  }

  #newTogether(): Together {
    const ids = new Set<bigint>();
    const found = nextTurn().then(() => {
      if (this.#together?.ids === ids) this.#together = undefined;
      return this.#textsOf([...ids]);
    });
    return { ids, found };
  }

  async #textsOf(ids: readonly bigint[], isLarge = false): Promise<Found> {
    const { selectOne, selectThese } = this.#table;
    // The plan that is kept for an array is one for ten ids, and made anew for fewer.
    const [statement, value] = ids.length === 1 ? [selectOne, ids[0]] : [selectThese, ids];
    const rows = await this.#connections.read(statement, [value], { isPrepared: true, isLarge });
    return new Map(rows.map(({ id, json }) => [id ?? '', typeof json === 'string' ? sql.textOfHex(json) : null]));
  }

  async #pageOf(from: bigint, limit: number, status: PetStatus | undefined): Promise<TextPage> {
    // One more than is wanted says whether there is a next page.
    const statement = this.#table.selectPage(limit + 1, status);
    const [row] = await this.#connections.read(statement, [from], { isPrepared: preparedLimits.includes(limit) });
    const texts = row?.['page'] ? sql.textOfHex(row['page']).split('\n') : [];
    if (texts.length <= limit && !texts.includes(sql.tooLong)) return { texts };
    const lastId = /^\{"id":([1-9][0-9]{0,18})[,}]/.exec(texts[limit - 1] ?? '')?.[1];
    if (lastId === undefined || texts.includes(sql.tooLong)) return this.#longPageOf(from, limit, status);
    return { texts: texts.slice(0, limit), next: BigInt(lastId) };
  }

  /** A page of long texts, or of some that somebody has changed by hand. */
  async #longPageOf(from: bigint, limit: number, status: PetStatus | undefined): Promise<TextPage> {
    const rows = await this.#connections.read(this.#table.selectLongPage(limit + 1, status), [from], { isLarge: true });
    const texts: string[] = [];
    for (const { json } of rows.slice(0, limit)) {
      if (typeof json !== 'string') break;
      texts.push(sql.textOfHex(json));
    }
    const last = rows[texts.length - 1]?.['id'];
    return rows.length > texts.length && typeof last === 'string' ? { texts, next: BigInt(last) } : { texts };
  }

  #checkOpen(): void {
    if (this.#isClosed) throw closedError();
  }
}

/** Adds batches, one at a time in the name of one writer, and finds out what became of each. */
class Batches {
  readonly #connections: Connections;
  readonly #table: sql.Table;
  #writer = randomUUID();
  /** The number of its last batch; none is ever given twice. */
  #batch = 0n;

  constructor(connections: Connections, table: sql.Table) {
    this.#connections = connections;
    this.#table = table;
  }

  /**
   * Stores records in their order, and answers how many. One whose idempotency key was used comes to what that use came
   * to, after a commit of this very call: only then is that use on a synchronous standby too.
   * @throws DatabaseFailure where none is there, now or later, or nobody can say
   */
  async store(records: readonly Unnumbered[]): Promise<{ readonly added: readonly Added[]; readonly count: number }> {
    const giveUpAt = performance.now() + againMs;
    return again(
      async () => {
        const used = await this.#usesOf(records);
        const stored = await this.#insert(records.filter((_, index) => used[index] === undefined));
        const inOrder = stored.values();
        return { added: used.flatMap((use) => use ?? inOrder.next().value ?? []), count: stored.length };
      },
      (error) => {
        // Its row is not as we left it, as after a restore.
        const isOfWriter = endedItself(error, sql.notNextWords);
        if (isOfWriter) this.#writer = randomUUID();
        // Or another server has used a key since we looked.
        const isCollision = ['40001', '40P01'].includes(stateOf(error)) || endedItself(error, sql.keyTakenWords);
        if ((isOfWriter || isCollision) && performance.now() <= giveUpAt) return true;
        this.#connections.tell('be written to', error);
        return false;
      },
    );
  }

  /** Stores a record and undoes that, and commits an empty batch. @throws DatabaseFailure where an add would too */
  async tryOut({ status, rest }: Unnumbered): Promise<void> {
    const values = this.#valuesOf([{ status, rest }], randomUUID(), 1n);
    const prove = (knowsDeferred: boolean): Promise<unknown> =>
      this.#connections.ask(sql.proofOf(this.#table.insertBatch, values, knowsDeferred));
    await prove(true)
      .catch((error: unknown) => {
        if (!['42601', '0A000'].includes(stateOf(error))) throw error;
        return prove(false);
      })
      .catch((error: unknown) => {
        if (!endedItself(error, sql.provenWords)) throw error;
      });
    await this.store([]);
  }

  async #insert(records: readonly Unnumbered[]): Promise<readonly StoredText[]> {
    const batch = ++this.#batch;
    const lastId = await this.#ask(records, batch).catch((error: unknown) => {
      if (!(error instanceof DatabaseFailure) || !error.isUnknown) throw error;
      // Now, for the search may take as long as the database is away.
      this.#connections.tell('be written to', error);
      return this.#settle(batch, error);
    });
    const firstId = lastId - BigInt(records.length) + 1n;
    return records.map(({ rest }, index) => {
      const id = firstId + BigInt(index);
      return { id, json: `{"id":${id}${rest}` };
    });
  }

  async #ask(records: readonly Unnumbered[], batch: bigint): Promise<bigint> {
    const values = this.#valuesOf(records, this.#writer, batch);
    const { insertBatch, insertKeyedBatch } = this.#table;
    const uses = records.map(({ once }) => once);
    const isKeyed = uses.some((once) => once !== undefined);
    if (isKeyed) {
      values.push(
        uses.map((once) => once?.key ?? ''),
        uses.map((once) => once?.body ?? ''),
        uses.map((once) => once?.at ?? 0),
      );
    }
    const [row] = await this.#connections.ask(isKeyed ? insertKeyedBatch : insertBatch, values, { isPrepared: true });
    return lastIdIn(row);
  }

  #valuesOf(records: readonly Unnumbered[], writer: string, batch: bigint): unknown[] {
    const statuses = records.map(({ status }) => status ?? '');
    const rests = records.map(({ rest }) => Buffer.from(rest, 'latin1'));
    return [writer, batch, records.length, this.#table.counter, statuses, rests];
  }

  /** The last id of a batch, when the database can say. @throws `failure` where it is not there and never will be */
  #settle(batch: bigint, failure: DatabaseFailure): Promise<bigint> {
    return again(
      async () => {
        const [row] = await this.#connections.ask(sql.settle, [this.#writer, batch]);
        if (row === undefined || row['last_id'] === '-1') throw failure;
        return lastIdIn(row);
      },
      (error) => error !== failure && error instanceof DatabaseFailure && !this.#connections.isClosed,
    );
  }

  /** What the key of each record was used for; undefined where it is new or none. */
  async #usesOf(records: readonly Unnumbered[]): Promise<readonly (Added | undefined)[]> {
    const asked = records.flatMap(({ once }) => once ?? []);
    const values = [asked.map(({ key }) => key), asked.map(({ body }) => body)];
    const isKeyed = asked.length > 0;
    const rows = isKeyed ? await this.#connections.read(sql.selectKeys, values, { isPrepared: true }) : [];
    const uses = new Map(rows.map((row) => [row['key'], row]));
    return records.map(({ once }) => once && repeated(once, uses.get(once.key)));
  }
}

/** What a key of this row comes to; undefined where it is new. */
function repeated(once: InsertOnce, row: Row | undefined): Added | undefined {
  if (row === undefined || isTooFar(Number(row['sent_at']), once.at)) return undefined;
  if (row['body'] !== once.body) return mismatch;
  const { pet_id: id, json } = row;
  // Somebody has deleted it by hand.
  if (typeof id !== 'string' || typeof json !== 'string')
    return new PetstoreError('unavailable', 'The animal of this idempotency key is gone.');
  return { id: BigInt(id), json: sql.textOfHex(json) };
}

/** Whether a statement ended itself with these words; its state alone may be a trigger's. */
function endedItself(error: unknown, words: string): boolean {
  return stateOf(error) === '22P02' && reasonOf(causeOf(error)).includes(words);
}

/** The last id of a batch. @throws DatabaseFailure for the text of a reply that was damaged on its way */
function lastIdIn(row: Row | undefined): bigint {
  const digits = /^[0-9]{1,19}$/.exec(row?.['last_id'] ?? '')?.[0];
  if (digits === undefined) throw new DatabaseFailure(new Error('a batch was answered without its last id'), true);
  return BigInt(digits);
}

function storedOf(added: Added): StoredText {
  if (added instanceof PetstoreError) throw added;
  return added;
}
