/** Owns the statements over one table of records. Every value comes from outside; what is written into them is ours. */
import { petStatuses } from '../../pet.js';

/** One kind of records: which counter its ids come from, and how it is written and read. */
export interface Table {
  /** In `petstore_counters`. */
  readonly counter: string;
  /** See {@link insertInto}. */
  readonly insertBatch: string;
  /** The texts of ids: $1 is an array of them. */
  readonly selectThese: string;
  /** The texts behind $1, at most $2, of all and of each status. */
  readonly selectPage: string;
  readonly selectPageOf: Readonly<Record<string, string>>;
}

// As hexadecimal digits, whatever the server's settings would make of bytes.
const columns = "id, encode(json, 'hex') AS json";

/** The animals. */
export const petTable: Table = {
  counter: 'pets',
  insertBatch: insertInto('petstore_pets (id, status, json) SELECT id, status, json'),
  selectThese: `SELECT ${columns} FROM petstore_pets WHERE id = ANY($1::int8[])`,
  selectPage: pageOf('petstore_pets WHERE'),
  // Spelt out, for an index of one status is of use only where the planner reads that status.
  selectPageOf: Object.fromEntries(petStatuses.map((status) => [status, pageOf(`petstore_pets WHERE status = '${status}' AND`)])),
};

/** Records of a plugin's own. @param name Of small letters. */
export function recordTable(name: string): Table {
  const kind = `records.${name}`;
  return {
    counter: kind,
    insertBatch: insertInto(`petstore_records (kind, id, json) SELECT '${kind}', id, json`),
    selectThese: `SELECT ${columns} FROM petstore_records WHERE kind = '${kind}' AND id = ANY($1::int8[])`,
    selectPage: pageOf(`petstore_records WHERE kind = '${kind}' AND`),
    selectPageOf: {},
  };
}

/**
 * Adds a batch: $1 is the writer, $2 the number of its batch, $3 how many records, $4 the counter, $5 their statuses, $6
 * their texts behind the id. Ids are taken by raising the one counter, whose row stays locked until the commit: so they
 * become visible in their order, which a sequence would not promise. Nothing happens where the batch before was not the
 * writer's last, or is so no more.
 */
function insertInto(target: string): string {
  return `WITH turn AS (
  SELECT id FROM petstore_writers WHERE id = $1::uuid AND batch = $2::int8 - 1 FOR UPDATE
), taken AS (
  UPDATE petstore_counters SET last_id = last_id + $3::int8 FROM turn WHERE name = $4::text RETURNING last_id
), noted AS (
  UPDATE petstore_writers SET batch = $2::int8, last_id = taken.last_id FROM taken WHERE petstore_writers.id = $1::uuid
), batch AS (
  SELECT taken.last_id - $3::int8 + n AS id, status, convert_to('{"id":' || CAST(taken.last_id - $3::int8 + n AS text), 'UTF8') || rest AS json
  FROM taken, unnest($5::text[], $6::bytea[]) WITH ORDINALITY AS drafts (status, rest, n)
), stored AS (
  INSERT INTO ${target} FROM batch
)
SELECT last_id FROM taken`;
}

function pageOf(source: string): string {
  return `SELECT ${columns} FROM ${source} id > $1::int8 ORDER BY id LIMIT $2::int8`;
}
