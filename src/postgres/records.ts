/**
 * Records of one kind in the database. Those that wait are added as one batch, in one statement; those that are asked
 * for together are read together.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { reasonOf, PetstoreError } from '../errors.js';
import { int64Max, isInt64 } from '../int64.js';
import { checkQuery, isPetStatus, type PetStatus } from '../pet.js';
import type { Commit, InsertOnce, PetQuery, StoredText, TextPage, Texts } from '../storage.js';
import { GroupCommit } from '../journal/index.js';
import { checkOnce, closedError, inFlight, isTooFar, mismatch } from '../memory/index.js';
import { again, causeOf, DatabaseFailure, stateOf, type Connections } from './connections.js';
import type { Row } from './driver.js';
import {
  addCounter,
  keyTakenWords,
  maxIds,
  notNextWords,
  proofOf,
  provenWords,
  selectCounter,
  selectKeys,
  settle,
  textOfHex,
  tooLong,
  type Table,
} from './tables.js';

/** A record that has no id yet. */
export interface Unnumbered {
  readonly status: PetStatus | undefined;
  /** What stands after the id in its JSON text, a byte string. */
  readonly rest: string;
  /** The idempotency key that is to be kept with it. */
  readonly once?: InsertOnce | undefined;
}

/** What stands before the id in every JSON text. */
const textHead = '{"id":';

/** Where the rest begins in the JSON text of a record whose id has one digit. */
export const restAt = textHead.length + 1;

/** What adding a record comes to: its text, or why its idempotency key does not allow it. */
type Added = StoredText | PetstoreError;

/** For how long a batch that collided with another's is sent again, in milliseconds. */
const againMs = 2_000;

/** How long `/readyz` waits for the database, in milliseconds. */
const readyMs = 4_000;

/** The most rows of a page, whatever is asked for. */
const maxLimit = 1_000_000;

/** The limits of the pages whose statements are prepared: few, for each connection keeps a plan of each. */
const preparedLimits = [20, 50, 100];

/** Ids that go in one statement, and what it finds: texts by the digits of their id, null for a long one. */
interface Together {
  readonly ids: Set<bigint>;
  readonly found: Promise<ReadonlyMap<string, string | null>>;
}

/** One kind of records in one database. */
export class PostgresRecords<Draft> implements Texts<Draft, PetQuery> {
  readonly #connections: Connections;
  readonly #unnumbered: (draft: Draft) => Unnumbered;
  readonly #table: Table;
  readonly #batches: Batches;
  /** For finding out whether a batch could be stored, beside those that are. */
  readonly #trials: Batches;
  readonly #commits: GroupCommit<Unnumbered, Added>;
  /** The idempotency keys that are under way in this server. */
  readonly #keysUnderWay = new Set<string>();
  readonly #watchers: ((commit: Commit) => void)[] = [];
  readonly #closing = new AbortController();
  /** The ids that are not asked for yet, and the pages. */
  #together: Together | undefined;
  readonly #pages = new Map<string, Promise<TextPage>>();
  /** What adding failed by last, until it works or is known to. */
  #failure: unknown;
  /** What was stored last, or else what failed first: by that it is found out whether adding works. */
  #sample: Unnumbered | undefined;
  #readiness: Promise<void> | undefined;
  #opening: Promise<void> | undefined;
  #isClosed = false;

  constructor(connections: Connections, unnumbered: (draft: Draft) => Unnumbered, table: Table) {
    this.#connections = connections;
    this.#unnumbered = unnumbered;
    this.#table = table;
    this.#batches = new Batches(connections, table, this.#closing.signal);
    this.#trials = new Batches(connections, table, this.#closing.signal);
    this.#commits = new GroupCommit({
      commit: (records) => this.#commit(records).finally(() => this.#endKeys(records)),
      abandoned: (record) => this.#endKeys([record]),
      // As a text, as bytes and as the hexadecimal digits that are sent.
      bytesOf: ({ rest, once }) => 4 * rest.length + (once === undefined ? 128 : 640),
      hung: 'The database does not answer.',
    });
  }

  /** Makes the counter where there is none, once; after a failure the next call tries again. @throws DatabaseFailure */
  open(): Promise<void> {
    this.#opening ??= this.#makeCounter().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
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

  /** As that of a `PetStorage`, for animals alone. What is under way in another server is waited for. */
  async insertOnce(draft: Draft, once: InsertOnce): Promise<StoredText> {
    checkOnce(once);
    this.#checkOpen();
    if (this.#keysUnderWay.has(once.key)) throw inFlight;
    const record = { ...this.#unnumbered(draft), once };
    this.#keysUnderWay.add(once.key);
    return storedOf(await this.#commits.add(record));
  }

  /**
   * Together with all ids that this event-loop turn asks for: 2.5 to 3.4 times as many a second. What was sent before is
   * not shared: it may not see what its asker knows to be there.
   */
  async get(id: bigint): Promise<string | undefined> {
    this.#checkOpen();
    if (!isInt64(id)) return undefined;
    const together = (this.#together ??= this.#newTogether());
    together.ids.add(id);
    if (together.ids.size === maxIds) this.#together = undefined;
    const text = (await together.found).get(String(id));
    // Long ones one by one: together they would be in memory until the last of them is there.
    return text === null ? ((await this.#textsOf([id], true)).get(String(id)) ?? undefined) : text;
  }

  /** Together with all who ask for the same page in this turn: 2.8 times as many a second, by `pages.ts same`. */
  async list(query: PetQuery): Promise<TextPage> {
    checkQuery(query);
    this.#checkOpen();
    const { status, after = 0n } = query;
    const limit = Math.min(query.limit, maxLimit);
    // A status that there is none of is no text of ours to put into a statement.
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

  /** Asks the database, once for all who want to know at the same time. */
  async ready(): Promise<void> {
    this.#checkOpen();
    const late = new PetstoreError('unavailable', 'The database does not answer.');
    if (this.#commits.hung) throw late;
    this.#readiness ??= this.#askReadiness().finally(() => (this.#readiness = undefined));
    await Promise.race([this.#readiness, wait(readyMs, undefined, { ref: false }).then(() => Promise.reject(late))]);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // What was asked for in this turn is sent in the next.
    await Promise.all([this.#commits.close(), nextTurn()]);
    this.#closing.abort();
  }

  async #askReadiness(): Promise<void> {
    let row = await this.#readCounter();
    if (row?.['read_only'] !== 'off') {
      // That may be true of the session alone, so a new one is asked.
      this.#connections.renew();
      row = await this.#readCounter();
    }
    if (row?.['read_only'] !== 'off') throw new PetstoreError('unavailable', 'The database takes no writes.');
    if (BigInt(row['last_id'] ?? 0) === int64Max) throw new PetstoreError('unavailable', 'There are no ids left.');
    const failure = this.#failure;
    if (failure === undefined) return;
    await this.#trials.tryOut(this.#sample ?? { status: undefined, rest: '}' });
    await this.list({ limit: 1 });
    // What failed meanwhile is another failure.
    if (this.#failure === failure) this.#failure = undefined;
  }

  async #makeCounter(): Promise<void> {
    this.#checkOpen();
    // What has one already may let itself only be read, as the source of a copy.
    if ((await this.#readCounter()) === undefined) await this.#connections.ask(addCounter, [this.#table.counter]);
  }

  async #readCounter(): Promise<Row | undefined> {
    const [row] = await this.#connections.read(selectCounter, [this.#table.counter], { isPrepared: true });
    return row;
  }

  /** Each record stored, or found where it was stored before by its key, or refused for that. */
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
        // These records are kept: whoever fails to hear of it must not make a failure of that.
        this.#connections.log('error', 'a watcher of commits failed', { error: reasonOf(error) });
      }
    }
    return added;
  }

  #newTogether(): Together {
    const ids = new Set<bigint>();
    const found = nextTurn().then(() => {
      if (this.#together?.ids === ids) this.#together = undefined;
      return this.#textsOf([...ids]);
    });
    return { ids, found };
  }

  async #textsOf(ids: readonly bigint[], isLarge = false): Promise<ReadonlyMap<string, string | null>> {
    const { selectOne, selectThese } = this.#table;
    // The plan that is kept for an array takes it for ten ids, and is made anew for fewer.
    const [statement, value] = ids.length === 1 ? [selectOne, ids[0]] : [selectThese, ids];
    const rows = await this.#connections.read(statement, [value], { isPrepared: true, isLarge });
    return new Map(rows.map(({ id, json }) => [id ?? '', typeof json === 'string' ? textOfHex(json) : null]));
  }

  async #pageOf(from: bigint, limit: number, status: PetStatus | undefined): Promise<TextPage> {
    // One more than is wanted says whether there is a next page.
    const statement = this.#table.selectPage(limit + 1, status);
    const [row] = await this.#connections.read(statement, [from], { isPrepared: preparedLimits.includes(limit) });
    const texts = row?.['page'] ? textOfHex(row['page']).split('\n') : [];
    const next = texts.length > limit ? idOf(texts[limit - 1]) : 0n;
    if (next === undefined || texts.includes(tooLong)) return this.#longPageOf(from, limit, status);
    return next === 0n ? { texts } : { texts: texts.slice(0, limit), next };
  }

  /** A page of texts that are too long to be asked for at once, or that somebody has changed by hand. */
  async #longPageOf(from: bigint, limit: number, status: PetStatus | undefined): Promise<TextPage> {
    const rows = await this.#connections.read(this.#table.selectLongPage(limit + 1, status), [from], { isLarge: true });
    const texts: string[] = [];
    for (const { json } of rows.slice(0, limit)) {
      if (typeof json !== 'string') break;
      texts.push(textOfHex(json));
    }
    const last = rows[texts.length - 1]?.['id'];
    return rows.length > texts.length && typeof last === 'string' ? { texts, next: BigInt(last) } : { texts };
  }

  #endKeys(records: readonly Unnumbered[]): void {
    for (const { once } of records) if (once !== undefined) this.#keysUnderWay.delete(once.key);
  }

  #checkOpen(): void {
    if (this.#isClosed) throw closedError();
  }
}

/** Adds batches, one at a time and in the name of one writer, and finds out what became of each. */
class Batches {
  readonly #connections: Connections;
  readonly #table: Table;
  readonly #stop: AbortSignal;
  #writer = randomUUID();
  /** The number of its last batch; none is ever given twice. */
  #batch = 0n;

  /** @param stop Ends the search for the outcome of a batch. */
  constructor(connections: Connections, table: Table, stop: AbortSignal) {
    this.#connections = connections;
    this.#table = table;
    this.#stop = stop;
  }

  /**
   * Stores records under the next ids, in their order, but for those whose idempotency key was used within its time:
   * they come to what that use came to. Either is answered only after a commit of this very call: what can be read may
   * not have reached a synchronous standby yet, but has when a later commit did.
   * @returns what each came to, and how many were stored.
   * @throws DatabaseFailure where the records are known not to be there, now or later, or where nobody can say.
   */
  async store(records: readonly Unnumbered[]): Promise<{ readonly added: readonly Added[]; readonly count: number }> {
    const giveUpAt = performance.now() + againMs;
    return again(
      async () => {
        const used = await this.#usesOf(records);
        const stored = await this.#insert(records.filter((record) => !used.has(record)));
        const added = records.flatMap((record) => used.get(record) ?? stored.get(record) ?? []);
        return { added, count: stored.size };
      },
      (error) => {
        // The writer's row is not as we left it, as in a database that was put back from a backup.
        const isOfWriter = endedItself(error, notNextWords);
        if (isOfWriter) this.#writer = randomUUID();
        // Serialization failure or deadlock, or another server has used a key since we looked.
        const isCollision = ['40001', '40P01'].includes(stateOf(error)) || endedItself(error, keyTakenWords);
        if ((isOfWriter || isCollision) && performance.now() <= giveUpAt) return true;
        this.#connections.tell('be written to', error);
        return false;
      },
    );
  }

  /** Stores this record and undoes that, and commits an empty batch. @throws DatabaseFailure where an add would too. */
  async tryOut({ status, rest }: Unnumbered): Promise<void> {
    const values = this.#valuesOf([{ status, rest }], randomUUID(), 1n);
    const prove = (knowsDeferred: boolean): Promise<unknown> =>
      this.#connections.ask(proofOf(this.#table.insertBatch, values, knowsDeferred));
    await prove(true)
      .catch((error: unknown) => {
        if (!['42601', '0A000'].includes(stateOf(error))) throw error;
        return prove(false);
      })
      .catch((error: unknown) => {
        if (!endedItself(error, provenWords)) throw error;
      });
    await this.store([]);
  }

  async #insert(records: readonly Unnumbered[]): Promise<ReadonlyMap<Unnumbered, StoredText>> {
    const batch = ++this.#batch;
    const lastId = await this.#ask(records, batch).catch((error: unknown) => {
      if (!(error instanceof DatabaseFailure) || !error.isUnknown) throw error;
      // At once, for the search may take as long as the database is away.
      this.#connections.tell('be written to', error);
      return this.#settle(batch, error);
    });
    const firstId = lastId - BigInt(records.length) + 1n;
    return new Map(
      records.map((record, index) => {
        const id = firstId + BigInt(index);
        return [record, { id, json: `${textHead}${id}${record.rest}` }];
      }),
    );
  }

  /** The last id of a batch. */
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

  /**
   * The last id of a batch whose outcome is unknown; only the database can say, however long that takes.
   * @throws `failure` where the batch isn't there and never will be; anything else once the storage closes.
   */
  #settle(batch: bigint, failure: DatabaseFailure): Promise<bigint> {
    return again(
      async () => {
        const [row] = await this.#connections.ask(settle, [this.#writer, batch]);
        if (row === undefined || row['last_id'] === '-1') throw failure;
        return lastIdIn(row);
      },
      (error) => error !== failure && error instanceof DatabaseFailure && !this.#stop.aborted,
    );
  }

  /** Those of the records whose key was used within its time, each with what that use comes to. */
  async #usesOf(records: readonly Unnumbered[]): Promise<ReadonlyMap<Unnumbered, Added>> {
    const asked = records.flatMap(({ once }) => once ?? []);
    if (asked.length === 0) return new Map();
    const values = [asked.map(({ key }) => key), asked.map(({ body }) => body)];
    const rows = await this.#connections.read(selectKeys, values, { isPrepared: true });
    const uses = new Map(rows.map((row) => [row['key'], row]));
    return new Map(
      records.flatMap((record) => {
        const use = record.once && repeated(record.once, uses.get(record.once.key));
        return use === undefined ? [] : [[record, use]];
      }),
    );
  }
}

/** What a key comes to that has this row; undefined where it is new. */
function repeated(once: InsertOnce, row: Row | undefined): Added | undefined {
  if (row === undefined || isTooFar(Number(row['sent_at']), once.at)) return undefined;
  if (row['body'] !== once.body) return mismatch;
  const { pet_id: id, json } = row;
  // Nobody but a person who administers the database can have taken it away.
  if (typeof id !== 'string' || typeof json !== 'string')
    return new PetstoreError('unavailable', 'The animal of this idempotency key is gone.');
  return { id: BigInt(id), json: textOfHex(json) };
}

/** Whether a statement of ours ended itself, saying this: by our own words, for any state may be a trigger's. */
function endedItself(error: unknown, words: string): boolean {
  return stateOf(error) === '22P02' && reasonOf(causeOf(error)).includes(words);
}

/** The last id of a batch. @throws DatabaseFailure for any other text, as of a reply that was damaged on its way */
function lastIdIn(row: Row | undefined): bigint {
  const digits = /^[0-9]{1,19}$/.exec(row?.['last_id'] ?? '')?.[0];
  if (digits === undefined) throw new DatabaseFailure(new Error('a batch was answered without its last id'), true);
  return BigInt(digits);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The id in a text as we write it. */
function idOf(text = ''): bigint | undefined {
  const digits = /^\{"id":([1-9][0-9]{0,18})[,}]/.exec(text)?.[1];
  return digits === undefined ? undefined : BigInt(digits);
}

function storedOf(added: Added): StoredText {
  if (added instanceof PetstoreError) throw added;
  return added;
}
