/** Owns the statements over one table of records. Every value comes from outside; what is written into them is ours. */
import { petStatuses } from '../../pet.js';
import { keptMs } from '../idempotency.js';

/** One kind of records: which counter its ids come from, and how it is written and read. */
export interface Table {
  /** In `petstore_counters`. */
  readonly counter: string;
  /** See {@link insertInto}. */
  readonly insertBatch: string;
  /** The same with idempotency keys, of a table that has them. */
  readonly insertKeyedBatch?: string;
  /**
   * Adds texts that have their ids, to a copy: raises the counter from the id that was last, $1, to the one that is, $2, or
   * does nothing; so it may be sent again. $3 are the ids, $4 the statuses, $5 the texts.
   */
  readonly adoptBatch: string;
  /** The last id that was given, and its text. */
  readonly selectLast: string;
  /** The texts of ids: $1 is an array of them. */
  readonly selectThese: string;
  /** The texts behind $1, at most $2, of all and of each status. */
  readonly selectPage: string;
  readonly selectPageOf: Readonly<Record<string, string>>;
}

// As hexadecimal digits, whatever the server's settings would make of bytes.
const columns = "id, encode(json, 'hex') AS json";

/** The byte string that such digits stand for. */
export function textOfHex(digits: string): string {
  return Buffer.from(digits, 'hex').toString('latin1');
}

/** What {@link insertInto} does besides with keys. */
const keepKeys = `, kept AS (
  INSERT INTO petstore_idempotency (key, body, sent_at, pet_id) SELECT key, body, sent_at, id FROM batch WHERE key IS NOT NULL
  ON CONFLICT (key) DO UPDATE SET body = excluded.body, sent_at = excluded.sent_at,
    pet_id = CASE WHEN abs(excluded.sent_at - petstore_idempotency.sent_at) >= ${keptMs} THEN excluded.pet_id END
)`;

/** The animals. */
export const petTable: Table = {
  counter: 'pets',
  insertBatch: insertInto('petstore_pets (id, status, json) SELECT id, status, json'),
  adoptBatch: adoptInto('pets', 'petstore_pets (id, status, json) SELECT adopted.id, adopted.status, adopted.json'),
  selectLast: lastOf('pets', 'petstore_pets ON id = last_id'),
  insertKeyedBatch: insertInto('petstore_pets (id, status, json) SELECT id, status, json', keepKeys),
  selectThese: `SELECT ${columns} FROM petstore_pets WHERE id = ANY($1::int8[])`,
  selectPage: pageOf('petstore_pets WHERE'),
  // Spelt out, for an index of one status is of use only where the planner reads that status.
  selectPageOf: Object.fromEntries(petStatuses.map((status) => [status, pageOf(`petstore_pets WHERE status = '${status}' AND`)])),
};

/** What stands before the name of a plugin's records in the name of their counter. */
export const kindPrefix = 'records.';

/** Whether the counter of a kind of records is there. */
export const selectCounter = 'SELECT last_id FROM petstore_counters WHERE name = $1::text';

/** Makes it. */
export const addCounter = 'INSERT INTO petstore_counters (name, last_id) VALUES ($1::text, 0) ON CONFLICT (name) DO NOTHING';

/** The counters of all kinds that have a record. */
export const selectCounters = 'SELECT name FROM petstore_counters WHERE last_id > 0 ORDER BY name';

/** Records of a plugin's own. @param name Of small letters. */
export function recordTable(name: string): Table {
  const kind = `${kindPrefix}${name}`;
  return {
    counter: kind,
    insertBatch: insertInto(`petstore_records (kind, id, json) SELECT '${kind}', id, json`),
    adoptBatch: adoptInto(kind, `petstore_records (kind, id, json) SELECT '${kind}', adopted.id, adopted.json`),
    selectLast: lastOf(kind, `petstore_records ON kind = '${kind}' AND id = last_id`),
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
 *
 * With keys, $7 are those of the records that have one, $8 their bodies, $9 their times. One that was used within its time
 * would get a null for its animal, and that the table refuses: so the whole statement is undone (see `isKeyTaken`). Two
 * servers that use one key at once wait for each other at the counter before.
 */
function insertInto(target: string, keeping = ''): string {
  const [names, arrays] = keeping !== '' ? [', key, body, sent_at', ', $7::text[], $8::text[], $9::int8[]'] : ['', ''];
  return `WITH turn AS (
  SELECT id FROM petstore_writers WHERE id = $1::uuid AND batch = $2::int8 - 1 FOR UPDATE
), taken AS (
  UPDATE petstore_counters SET last_id = last_id + $3::int8 FROM turn WHERE name = $4::text RETURNING last_id
), noted AS (
  UPDATE petstore_writers SET batch = $2::int8, last_id = taken.last_id FROM taken WHERE petstore_writers.id = $1::uuid
), batch AS (
  SELECT taken.last_id - $3::int8 + n AS id, status, convert_to('{"id":' || CAST(taken.last_id - $3::int8 + n AS text), 'UTF8') || rest AS json${names}
  FROM taken, unnest($5::text[], $6::bytea[]${arrays}) WITH ORDINALITY AS drafts (status, rest${names}, n)
), stored AS (
  INSERT INTO ${target} FROM batch
)${keeping}
SELECT last_id FROM taken`;
}

/** The uses of the keys $1, each with its animal. */
export const selectKeys = `SELECT key, body, sent_at, pet_id, encode(json, 'hex') AS json
FROM petstore_idempotency LEFT JOIN petstore_pets ON petstore_pets.id = petstore_idempotency.pet_id WHERE key = ANY($1::text[])`;

function adoptInto(counter: string, target: string): string {
  return `WITH taken AS (
  UPDATE petstore_counters SET last_id = $2::int8 WHERE name = '${counter}' AND last_id = $1::int8 RETURNING last_id
), stored AS (
  INSERT INTO ${target} FROM taken, unnest($3::int8[], $4::text[], $5::bytea[]) AS adopted (id, status, json)
)
SELECT last_id FROM taken`;
}

function lastOf(counter: string, table: string): string {
  return `SELECT last_id, encode(json, 'hex') AS json FROM petstore_counters LEFT JOIN ${table} WHERE name = '${counter}'`;
}

function pageOf(source: string): string {
  return `SELECT ${columns} FROM ${source} id > $1::int8 ORDER BY id LIMIT $2::int8`;
}
