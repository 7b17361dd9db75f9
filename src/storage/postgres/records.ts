/** Owns records of one kind in the database: those that wait together, their batch, and reading them. Knows no animal. */
import { messageOf, PetstoreError } from '../../errors.js';
import { int64Max } from '../../int64.js';
import type { Log } from '../../log.js';
import type { Commit, InsertOnce, PetQuery, StoredText, TextPage, Texts } from '../../storage.js';
import { GroupCommit } from '../group-commit.js';
import { checkOnce, inFlight } from '../idempotency.js';
import { closedError } from '../record-set.js';
import { Batches, type Unnumbered } from './batches.js';
import type { Connections, Row } from './connections.js';
import { isKeyTaken } from './failure.js';
import { UsedKeys } from './keys.js';
import { Reads } from './reads.js';
import type { Table } from './table.js';

const selectReadiness = "SELECT last_id, current_setting('transaction_read_only') AS read_only FROM petstore_counters WHERE name = $1::text";

/** For how long a batch is sent again whose keys others use meanwhile, in milliseconds. */
const raceMs = 2_000;

/** One kind of records in one database. */
export class PostgresRecords<Draft> implements Texts<Draft, PetQuery> {
  readonly #connections: Connections;
  readonly #unnumbered: (draft: Draft) => Unnumbered;
  readonly #table: Table;
  readonly #log: Log;
  readonly #batches: Batches;
  readonly #reads: Reads;
  readonly #usedKeys: UsedKeys;
  /** The idempotency keys that are under way in this server. */
  readonly #keysUnderWay = new Set<string>();
  readonly #commits: GroupCommit<Unnumbered, StoredText | PetstoreError>;
  readonly #stop = new AbortController();
  readonly #watchers: ((commit: Commit) => void)[] = [];
  #isClosed = false;
  #readiness: Promise<void> | undefined;

  constructor(connections: Connections, unnumbered: (draft: Draft) => Unnumbered, table: Table, log: Log) {
    this.#connections = connections;
    this.#unnumbered = unnumbered;
    this.#table = table;
    this.#log = log;
    this.#batches = new Batches(connections, table, this.#stop.signal);
    this.#reads = new Reads(connections, table);
    this.#usedKeys = new UsedKeys(connections);
    this.#commits = new GroupCommit({
      commit: (records) => this.#commit(records).finally(() => this.#endKeys(records)),
      abandoned: (record) => this.#endKeys([record]),
      // As a text, as bytes and as the hexadecimal digits that are sent.
      bytesOf: ({ rest, once }) => 4 * rest.length + (once === undefined ? 128 : 640),
      hung: 'The database does not answer.',
    });
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

  /**
   * As `insertOnce` of a `PetStorage`. What is under way in another server is waited for.
   * @throws TypeError where the table keeps no keys, as that of a plugin's records.
   */
  async insertOnce(draft: Draft, once: InsertOnce): Promise<StoredText> {
    if (this.#table.insertKeyedBatch === undefined) throw new TypeError('these records keep no idempotency keys');
    checkOnce(once);
    this.#opened();
    if (this.#keysUnderWay.has(once.key)) throw inFlight;
    const record = { ...this.#unnumbered(draft), once };
    this.#keysUnderWay.add(once.key);
    return storedOf(await this.#commits.add(record));
  }

  get(id: bigint): Promise<string | undefined> {
    return this.#opened().get(id);
  }

  list(query: PetQuery): Promise<TextPage> {
    return this.#opened().page(query);
  }

  /** Asks the database, once for all who want to know at the same time. */
  async ready(): Promise<void> {
    this.#readiness ??= this.#askReadiness().finally(() => (this.#readiness = undefined));
    await this.#readiness;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#commits.close();
    this.#stop.abort();
  }

  async #askReadiness(): Promise<void> {
    this.#opened();
    if (this.#commits.hung) throw new PetstoreError('unavailable', 'The database does not answer.');
    let row = await this.#readReadiness();
    if (row?.['read_only'] !== 'off') {
      // That may be true of the connection alone, so a new one is asked.
      this.#connections.distrust();
      row = await this.#readReadiness();
    }
    if (row?.['read_only'] !== 'off') throw new PetstoreError('unavailable', 'The database takes no writes.');
    if (BigInt(row['last_id'] ?? 0) === int64Max) throw new PetstoreError('unavailable', 'There are no ids left.');
  }

  async #readReadiness(): Promise<Row | undefined> {
    const [row] = await this.#connections.read(selectReadiness, [this.#table.counter]);
    return row;
  }

  /** Each record stored, or found where it was stored before by its key, or refused for that. */
  async #commit(records: readonly Unnumbered[]): Promise<readonly (StoredText | PetstoreError)[]> {
    for (const giveUpAt = performance.now() + raceMs; ; ) {
      const used = await this.#usedKeys.find(records);
      try {
        const stored = [...(await this.#store(records.filter((record) => !used.has(record))))];
        return records.flatMap((record) => used.get(record) ?? stored.shift() ?? []);
      } catch (error) {
        // Another server has used one of the keys since.
        if (!isKeyTaken(error) || performance.now() > giveUpAt) throw error;
      }
    }
  }

  async #store(records: readonly Unnumbered[]): Promise<readonly StoredText[]> {
    if (records.length === 0) return [];
    const startedAt = performance.now();
    const stored = await this.#batches.store(records);
    this.#tell({ count: stored.length, syncMilliseconds: performance.now() - startedAt });
    return stored;
  }

  #endKeys(records: readonly Unnumbered[]): void {
    for (const { once } of records) if (once !== undefined) this.#keysUnderWay.delete(once.key);
  }

  /** These records are kept: whoever fails to hear of it must not make a failure of that. */
  #tell(commit: Commit): void {
    for (const watch of this.#watchers) {
      try {
        watch(commit);
      } catch (error) {
        this.#log('error', 'a watcher of commits failed', { error: messageOf(error) });
      }
    }
  }

  /** What is there to read, until it closes. */
  #opened(): Reads {
    if (this.#isClosed) throw closedError();
    return this.#reads;
  }
}

function storedOf(outcome: StoredText | PetstoreError): StoredText {
  if (outcome instanceof PetstoreError) throw outcome;
  return outcome;
}
