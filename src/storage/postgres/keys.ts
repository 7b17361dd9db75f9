/** Owns finding which idempotency keys were used for which animals, by any server of the database. Changes nothing. */
import { PetstoreError } from '../../errors.js';
import type { InsertOnce, StoredText } from '../../storage.js';
import { isTooFar, mismatch } from '../idempotency.js';
import type { Unnumbered } from './batches.js';
import type { Connections, Row } from './connections.js';
import { selectKeys, textOfHex } from './table.js';

/** The keys in one database. */
export class UsedKeys {
  readonly #connections: Connections;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  /** Those of the records whose key was used within its time, each with what that use comes to. @throws DatabaseFailure */
  async find(records: readonly Unnumbered[]): Promise<ReadonlyMap<Unnumbered, StoredText | PetstoreError>> {
    const keys = records.flatMap(({ once }) => once?.key ?? []);
    if (keys.length === 0) return new Map();
    const rows = await this.#connections.read(selectKeys, [keys]);
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
function repeated(once: InsertOnce, row: Row | undefined): StoredText | PetstoreError | undefined {
  if (row === undefined || isTooFar(Number(row['sent_at']), once.at)) return undefined;
  if (row['body'] !== once.body) return mismatch;
  const { pet_id: id, json } = row;
  // Nobody but a person who administers the database can have taken it away.
  if (typeof id !== 'string' || typeof json !== 'string') return new PetstoreError('unavailable', 'The animal of this idempotency key is gone.');
  return { id: BigInt(id), json: textOfHex(json) };
}
