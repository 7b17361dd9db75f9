/**
 * Owns adding records to the database, a batch in one statement, and finding out what became of a batch whose answer was
 * lost. Never two batches at once. Knows no caller.
 */
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { PetStatus } from '../../pet.js';
import type { InsertOnce, StoredText } from '../../storage.js';
import type { Connections, Row } from './connections.js';
import { DatabaseFailure, isKeyTaken, sqlStateOf } from './failure.js';
import type { Table } from './table.js';

/** A record that has no id yet. */
export interface Unnumbered {
  readonly status: PetStatus | undefined;
  /** What stands behind the id in its JSON text, a byte string. */
  readonly rest: string;
  /** The idempotency key that is to be kept with it. */
  readonly once?: InsertOnce | undefined;
}

/** What stands before the id in every JSON text. */
const textHead = '{"id":';

/** What stands behind the id in the JSON text of a record whose id is this one. */
export function restBehind(id: bigint, json: string): string {
  return json.slice(`${textHead}${id}`.length);
}

const addWriter = 'INSERT INTO petstore_writers (id, batch, last_id) VALUES ($1::uuid, 0, 0)';

/**
 * Takes the number of a batch away from it, and leaves one that is done; answers which. It waits for one that is still at
 * work. In both cases it writes, so that its own commit waits for a synchronous standby: one whose backend was told to end
 * while it waited is there for everybody to read, and may be on this server alone.
 */
const forestall = `UPDATE petstore_writers SET batch = $2::int8, last_id = CASE WHEN batch = $2::int8 THEN last_id ELSE 0 END
WHERE id = $1::uuid AND batch IN ($2::int8 - 1, $2::int8) RETURNING last_id`;

/** What a proxy that shares connections, such as PgBouncer, makes of a statement that was prepared on another. */
const unpreparedStates: ReadonlySet<string | undefined> = new Set(['26000', '42P05']);

/** For how long a batch that got in another's way is sent again, in milliseconds. */
const againMs = 2_000;
const longestPauseMs = 250;

interface Writer {
  readonly id: string;
  /** The number of its last batch; both together are a batch's own id. */
  batch: bigint;
}

/** The way in for the records of one kind and one server. */
export class Batches {
  readonly #connections: Connections;
  readonly #table: Table;
  readonly #stop: AbortSignal;
  #isPrepared = true;
  #writer: Writer | undefined;

  /** @param stop Ends the search for the outcome of a batch. */
  constructor(connections: Connections, table: Table, stop: AbortSignal) {
    this.#connections = connections;
    this.#table = table;
    this.#stop = stop;
  }

  /**
   * Stores records under the next ids, in their order.
   * @throws DatabaseFailure where they are known not to be there, now or later; see `isKeyTaken` too.
   */
  async store(records: readonly Unnumbered[]): Promise<readonly StoredText[]> {
    const statuses = records.map(({ status }) => status ?? null);
    const rests = records.map(({ rest }) => Buffer.from(rest, 'latin1'));
    const values = [records.length, this.#table.counter, statuses, rests];
    const { insertBatch, insertKeyedBatch } = this.#table;
    // Where there is no statement for keys, `insertOnce` has refused them.
    const isKeyed = insertKeyedBatch !== undefined && records.some(({ once }) => once !== undefined);
    const lastId = await (isKeyed ? this.#insert(insertKeyedBatch, [...values, ...keyColumnsOf(records)]) : this.#insert(insertBatch, values));
    const firstId = lastId - BigInt(records.length) + 1n;
    return records.map(({ rest }, index) => {
      const id = firstId + BigInt(index);
      return { id, json: `${textHead}${id}${rest}` };
    });
  }

  /** The last id of the batch. */
  async #insert(statement: string, values: readonly unknown[]): Promise<bigint> {
    const giveUpAt = performance.now() + againMs;
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      const writer = (this.#writer ??= await this.#newWriter());
      writer.batch++;
      let failure: DatabaseFailure;
      try {
        const [row] = await this.#ask(statement, [writer.id, writer.batch, ...values]);
        if (row !== undefined) return BigInt(row['last_id'] ?? 0);
        // The writer's row is not as we left it, as in a database that was put back from a backup.
        this.#writer = undefined;
        failure = new DatabaseFailure('again', new Error('the tables of the petstore lack a row'));
      } catch (error) {
        if (!(error instanceof DatabaseFailure)) throw error;
        if (error.outcome === 'unknown') return this.#settle(writer, error);
        writer.batch--;
        failure = error;
      }
      if (failure.outcome === 'no' || isKeyTaken(failure) || performance.now() > giveUpAt) throw failure;
      await wait(pauseMs);
    }
  }

  /** The server is spared to plan it again and again, where it may remember it. */
  async #ask(statement: string, values: unknown[]): Promise<readonly Row[]> {
    if (!this.#isPrepared) return this.#connections.ask(statement, values);
    try {
      return await this.#connections.ask(statement, values, { name: nameOf(statement) });
    } catch (error) {
      if (!(error instanceof DatabaseFailure) || !unpreparedStates.has(sqlStateOf(error.cause))) throw error;
      this.#isPrepared = false;
      return this.#connections.ask(statement, values);
    }
  }

  async #newWriter(): Promise<Writer> {
    const id = randomUUID();
    await this.#connections.ask(addWriter, [id]);
    return { id, batch: 0n };
  }

  /**
   * The last id of a batch whose answer was lost.
   * @throws `failure` where the batch isn't there and never will be; only the database can say, however long that takes.
   */
  async #settle({ id, batch }: Writer, failure: DatabaseFailure): Promise<bigint> {
    for (let pauseMs = 10; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      try {
        const [row] = await this.#connections.ask(forestall, [id, batch]);
        const lastId = BigInt(row?.['last_id'] ?? 0);
        if (lastId > 0n) return lastId;
        throw failure;
      } catch (error) {
        if (error === failure || !(error instanceof DatabaseFailure) || this.#stop.aborted) throw error;
      }
      // A storage that closes meanwhile waits no longer than this.
      await wait(pauseMs);
    }
  }
}

const names = new Map<string, string>();

/** Of this very text, so that no other version of ours can have prepared another by it. */
function nameOf(statement: string): string {
  const name = names.get(statement) ?? `petstore_${createHash('sha256').update(statement).digest('hex').slice(0, 32)}`;
  names.set(statement, name);
  return name;
}

function keyColumnsOf(records: readonly Unnumbered[]): unknown[] {
  const uses = records.map(({ once }) => once);
  return [uses.map((once) => once?.key ?? null), uses.map((once) => once?.body ?? null), uses.map((once) => once?.at ?? null)];
}
