/**
 * Owns adding animals to the database, a batch in one statement, and finding out what became of a batch whose answer was
 * lost. Never two batches at once. Knows no caller.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { petJson, type PetDraft } from '../../pet.js';
import type { StoredText } from '../../storage.js';
import type { Connections } from './connections.js';
import { DatabaseFailure } from './failure.js';

/**
 * Takes ids by raising the one counter, whose row stays locked until the commit: so ids become visible in their order,
 * which a sequence would not promise. A batch's own id is its writer's and a number, one more than that of the batch
 * before: where that is not the writer's last, or not any more, nothing happens.
 */
const insertBatch = `WITH turn AS (
  SELECT id FROM petstore_writers WHERE id = $1::uuid AND batch = $2::int8 - 1 FOR UPDATE
), taken AS (
  UPDATE petstore_counters SET last_id = last_id + $3::int8 FROM turn WHERE name = 'pets' RETURNING last_id
), noted AS (
  UPDATE petstore_writers SET batch = $2::int8, last_id = taken.last_id FROM taken WHERE petstore_writers.id = $1::uuid
), stored AS (
  INSERT INTO petstore_pets (id, status, json)
  SELECT taken.last_id - $3::int8 + n, status, convert_to('{"id":' || CAST(taken.last_id - $3::int8 + n AS text), 'UTF8') || rest
  FROM taken, unnest($4::text[], $5::bytea[]) WITH ORDINALITY AS drafts (status, rest, n)
)
SELECT last_id FROM taken`;

const addWriter = 'INSERT INTO petstore_writers (id, batch, last_id) VALUES ($1::uuid, 0, 0)';

/** Takes the number of a batch away from it. It waits for one that is still at work, and leaves one that is done. */
const forestall = 'UPDATE petstore_writers SET batch = $2::int8, last_id = 0 WHERE id = $1::uuid AND batch = $2::int8 - 1';
const lookUp = 'SELECT last_id FROM petstore_writers WHERE id = $1::uuid AND batch = $2::int8';

/** What stands before the rest of a text that has no id yet. */
const head = '{"id":';
/** For how long a batch that got in another's way is sent again, in milliseconds. */
const againMs = 2_000;
const longestPauseMs = 250;

interface Writer {
  readonly id: string;
  /** The number of its last batch. */
  batch: bigint;
}

/** The way in for the animals of one server. */
export class Batches {
  readonly #connections: Connections;
  readonly #stop: AbortSignal;
  #writer: Writer | undefined;

  /** @param stop Ends the search for the outcome of a batch. */
  constructor(connections: Connections, stop: AbortSignal) {
    this.#connections = connections;
    this.#stop = stop;
  }

  /**
   * Stores animals under the next ids, in their order.
   * @throws DatabaseFailure where they are known not to be there, now or later.
   */
  async store(drafts: readonly PetDraft[]): Promise<readonly StoredText[]> {
    const rests = drafts.map((draft) => petJson(0n, draft).slice(head.length + 1));
    const statuses = drafts.map((draft) => draft.status ?? null);
    const bytes = rests.map((rest) => Buffer.from(rest, 'latin1'));
    const lastId = await this.#storeRests(statuses, bytes);
    const firstId = lastId - BigInt(drafts.length) + 1n;
    return rests.map((rest, index) => {
      const id = firstId + BigInt(index);
      return { id, json: `${head}${id}${rest}` };
    });
  }

  async #storeRests(statuses: readonly (string | null)[], rests: readonly Buffer[]): Promise<bigint> {
    const giveUpAt = performance.now() + againMs;
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      const writer = (this.#writer ??= await this.#newWriter());
      writer.batch++;
      let failure: DatabaseFailure;
      try {
        const [row] = await this.#connections.ask(insertBatch, [writer.id, writer.batch, rests.length, statuses, rests]);
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
      if (failure.outcome === 'no' || performance.now() > giveUpAt) throw failure;
      await wait(pauseMs);
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
        await this.#connections.ask(forestall, [id, batch]);
        const [row] = await this.#connections.read(lookUp, [id, batch]);
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
