/**
 * The tables in the database: the steps that make them, and every statement over them. Values come from outside; what
 * is written into a statement is ours. Only what CockroachDB and YugabyteDB have too: an id is taken from a row, not
 * from a sequence, and nothing is unique beside the primary keys.
 */
import { petStatuses, type PetStatus } from '../pet.js';
import { keptMs } from '../memory/index.js';

/**
 * Each of one statement that may be run again. A step that has gone out never changes; new ones only add, so that a
 * server from before works on.
 */
export const steps: readonly string[] = [
  'CREATE TABLE IF NOT EXISTS petstore_schema (name text PRIMARY KEY, version int8 NOT NULL)',
  // The one JSON text in UTF-8. As bytes, so that no setting of server or client converts it.
  'CREATE TABLE IF NOT EXISTS petstore_pets (id int8 PRIMARY KEY, status text, json bytea NOT NULL)',
  // One for each status: never dearer to read than all animals by id, even where the planner takes a status for common.
  ...petStatuses.map(
    (status) =>
      `CREATE INDEX IF NOT EXISTS petstore_pets_${status} ON petstore_pets (id ASC) WHERE status = '${status}'`,
  ),
  'CREATE TABLE IF NOT EXISTS petstore_counters (name text PRIMARY KEY, last_id int8 NOT NULL)',
  "INSERT INTO petstore_counters (name, last_id) VALUES ('pets', 0) ON CONFLICT (name) DO NOTHING",
  // What plugins keep beside the animals.
  'CREATE TABLE IF NOT EXISTS petstore_records (kind text, id int8, json bytea NOT NULL, PRIMARY KEY (kind, id))',
  // Each server's last batch and the last id in it.
  'CREATE TABLE IF NOT EXISTS petstore_writers (id uuid PRIMARY KEY, batch int8 NOT NULL, last_id int8 NOT NULL)',
  // Which idempotency key was used for which animal, as digests; one that has expired stays until it is used anew.
  'CREATE TABLE IF NOT EXISTS petstore_idempotency ' +
    '(key text PRIMARY KEY, body text NOT NULL, sent_at int8 NOT NULL, pet_id int8 NOT NULL)',
];

/** How many of the steps are taken: $1. */
export const setVersion =
  "INSERT INTO petstore_schema (name, version) VALUES ('petstore', $1::int8) " +
  'ON CONFLICT (name) DO UPDATE SET version = GREATEST(petstore_schema.version, excluded.version)';

export const selectVersion = "SELECT version FROM petstore_schema WHERE name = 'petstore'";

// As hexadecimal digits, whatever the server's settings would make of bytes.
const hex = "encode(json, 'hex')";

/** The byte string that such digits stand for. */
export function textOfHex(digits: string): string {
  return Buffer.from(digits, 'hex').toString('latin1');
}

/**
 * A page ends after so many bytes of texts: then about twice as many come from the database. More than 100 animals of
 * the default `maxBodyBytes`.
 */
const maxPageBytes = 2 ** 24;

/** The most bytes of texts in an answer that may come on all connections at once. */
const maxQuickBytes = 2 ** 21;

/** The most ids in one statement. */
export const maxIds = 256;

/** In the place of a text that is too long to be sent with others. */
export const tooLong = '\xff';

/** Within the error of a batch whose number is not its writer's next. */
export const notNextWords = 'batches before the next of this writer';

/** Within the error of a batch one of whose keys another server has used since we looked. */
export const keyTakenWords = 'is when this key was used';

/** Within the error that ends a proof (see {@link proofOf}). */
export const provenWords = 'a batch could be stored';

/** Ends a statement, which undoes it, by an error 22P02: a count with words after it is no number. */
function failing(count: string, words: string): string {
  return `CAST(CAST(${count} AS text) || ' ${words}' AS int8)`;
}

/** The animals. */
export const petTable = tableOf(
  'pets',
  "petstore_pets (id, status, json) SELECT id, NULLIF(status, ''), json",
  // A status is spelt out, for its index is of use only where the planner reads that status.
  (status) => (status === undefined ? 'petstore_pets WHERE' : `petstore_pets WHERE status = '${status}' AND`),
);

/** What stands before the name of a plugin's records in the name of their counter. */
export const kindPrefix = 'records.';

/** Records of a plugin's own. @param name Of small letters. */
export function recordTable(name: string): Table {
  const kind = `${kindPrefix}${name}`;
  const target = `petstore_records (kind, id, json) SELECT '${kind}', id, json`;
  return tableOf(kind, target, () => `petstore_records WHERE kind = '${kind}' AND`);
}

/** One kind of records: which counter its ids come from, and how it is written and read. */
export type Table = ReturnType<typeof tableOf>;

/**
 * @param target Into which columns which ones of a batch go.
 * @param rows Those of the kind, of all or of one status, to be followed by a condition of ids.
 */
function tableOf(counter: string, target: string, rows: (status?: PetStatus) => string) {
  return {
    /** In `petstore_counters`. */
    counter,
    /** See {@link insertInto}. */
    insertBatch: insertInto(target, false),
    /** The same with idempotency keys, which only animals have. */
    insertKeyedBatch: insertInto(target, true),
    /**
     * Adds texts that have their ids, to a copy: raises the counter from the id that was last, $1, to the one that is,
     * $2, or does nothing; so it may be sent again. $3 are the ids, $4 the statuses, $5 the texts.
     */
    adoptBatch: `WITH taken AS (
  UPDATE petstore_counters SET last_id = $2::int8 WHERE name = '${counter}' AND last_id = $1::int8 RETURNING last_id
), stored AS (
  INSERT INTO ${target} FROM taken, unnest($3::int8[], $4::text[], $5::bytea[]) AS adopted (id, status, json)
)
SELECT last_id FROM taken`,
    /** The last id that was given, and its text. */
    selectLast: `SELECT last_id, (SELECT ${hex} FROM ${rows()} id = last_id) AS json
FROM petstore_counters WHERE name = '${counter}'`,
    /** The text of an id: $1. */
    selectOne: `SELECT id, ${hex} AS json FROM ${rows()} id = $1::int8`,
    /** The texts of at most {@link maxIds} ids, $1: null for one longer than its part of {@link maxQuickBytes}. */
    selectThese: `SELECT id, CASE WHEN length(json) <= ${maxQuickBytes / maxIds} THEN ${hex} END AS json
FROM ${rows()} id = ANY($1::int8[])`,
    /**
     * The texts of so many rows with an id above $1, in their order, of all or of one status: the hexadecimal digits of
     * one text, a newline between two, and \xff for one longer than its part of {@link maxQuickBytes}. The limit is
     * spelt out: else no plan that is kept is as good as one that knows it.
     */
    selectPage: (limit: number, status?: PetStatus) => `SELECT array_to_string(ARRAY(
  SELECT CASE WHEN length(json) <= ${Math.floor(maxQuickBytes / limit)} THEN ${hex} END
  FROM ${rows(status)} id > $1::int8 ORDER BY id LIMIT ${limit}
), '0a', 'ff') AS page`,
    /**
     * The same rows, each with its id: a text is null once those before have {@link maxPageBytes}. Three quarters as
     * fast, by `pgbench --protocol=prepared`.
     */
    selectLongPage: (limit: number, status?: PetStatus) => `SELECT id, CASE
  WHEN sum(length(json)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - length(json) < ${maxPageBytes} THEN ${hex}
END AS json
FROM (SELECT id, json FROM ${rows(status)} id > $1::int8 ORDER BY id LIMIT ${limit}) AS page ORDER BY id`,
  };
}

/** Whether the counter of a kind of records is there, and can be raised here. */
export const selectCounter =
  "SELECT last_id, current_setting('transaction_read_only') AS read_only FROM petstore_counters WHERE name = $1::text";

/** Makes a counter. */
export const addCounter =
  'INSERT INTO petstore_counters (name, last_id) VALUES ($1::text, 0) ON CONFLICT (name) DO NOTHING';

/** The counters of all kinds that have a record. */
export const selectCounters = 'SELECT name FROM petstore_counters WHERE last_id > 0 ORDER BY name';

/**
 * Adds a batch, which may be empty, or does nothing: $1 is the writer, $2 the number of its batch, $3 how many records,
 * $4 the counter, $5 their statuses ('' for none), $6 their texts after the id. Ids are taken by raising the one
 * counter, whose row stays locked until the commit: so they become visible in their order, which a sequence would not
 * promise.
 *
 * It ends itself (see {@link failing}):
 * - with {@link notNextWords}, where the writer has had a batch of this number or a later one (see {@link settle});
 * - with {@link keyTakenWords}, where one of the keys was used within its time: $7 are those of the records ('' for
 *   none), $8 their bodies, $9 their times. Two servers that use one key wait for each other at the counter;
 * - with other words, where a row that should be there is not, as with a trigger that keeps none.
 *
 * No null is sent in an array, for `array_nulls = off` makes a text of it.
 */
function insertInto(target: string, hasKeys: boolean): string {
  const [names, arrays] = hasKeys ? [', key, body, sent_at', ', $7::text[], $8::text[], $9::int8[]'] : ['', ''];
  const wanted = hasKeys ? "$3::int8 + (SELECT count(*) FROM batch WHERE key <> '')" : '$3::int8';
  const kept = `(SELECT count(*) FROM stored)${hasKeys ? ' + (SELECT count(*) FROM kept)' : ''}`;
  const keeping = `, kept AS (
  INSERT INTO petstore_idempotency (key, body, sent_at, pet_id) SELECT key, body, sent_at, id FROM batch WHERE key <> ''
  ON CONFLICT (key) DO UPDATE SET body = excluded.body, sent_at = excluded.sent_at,
    pet_id = CASE WHEN abs(excluded.sent_at - petstore_idempotency.sent_at) >= ${keptMs} THEN excluded.pet_id
      ELSE ${failing('petstore_idempotency.sent_at', keyTakenWords)} END
  RETURNING key
)`;
  return `WITH taken AS (
  UPDATE petstore_counters SET last_id = last_id + $3::int8 WHERE name = $4::text RETURNING last_id
), noted AS (
  INSERT INTO petstore_writers (id, batch, last_id) SELECT $1::uuid, $2::int8, last_id FROM taken
  ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, last_id = excluded.last_id
    WHERE petstore_writers.batch < excluded.batch
  RETURNING batch
), batch AS (
  SELECT last_id - $3::int8 + n AS id, status,
    convert_to('{"id":' || CAST(last_id - $3::int8 + n AS text), 'UTF8') || rest AS json${names}
  FROM taken, unnest($5::text[], $6::bytea[]${arrays}) WITH ORDINALITY AS drafts (status, rest${names}, n)
), stored AS (
  INSERT INTO ${target} FROM batch RETURNING id
)${hasKeys ? keeping : ''}
SELECT CASE
  WHEN ${kept} = ${wanted} AND EXISTS (SELECT 1 FROM noted) THEN (SELECT last_id FROM taken)
  WHEN EXISTS (SELECT 1 FROM petstore_writers WHERE id = $1::uuid AND batch >= $2::int8)
    THEN ${failing('(SELECT count(*) FROM noted)', notNextWords)}
  ELSE ${failing(kept, `rows kept of ' || CAST(${wanted} AS text) || ', or no counter or writer`)}
END AS last_id`;
}

/**
 * Proves that a batch could be stored, and stores nothing: with what is deferred to the commit, where the database
 * knows of that, and ended in every case by an error, where all went well by one with {@link provenWords}. Sent as one
 * simple query, which is one transaction, for a trigger may object only after the statement that adds.
 * @param values Those of `insertBatch`, which become part of the text: none is from outside but bytes, as digits.
 */
export function proofOf(insertBatch: string, values: readonly unknown[], knowsDeferred: boolean): string {
  return [
    insertBatch.replaceAll(/\$([1-9])/g, (_, number) => literalOf(values[Number(number) - 1])),
    ...(knowsDeferred ? ['SET CONSTRAINTS ALL IMMEDIATE'] : []),
    `SELECT ${failing('count(*)', provenWords)} FROM petstore_counters`,
  ].join(';\n');
}

function literalOf(value: unknown): string {
  if (Array.isArray(value)) return `ARRAY[${value.map(literalOf).join(', ')}]`;
  return Buffer.isBuffer(value) ? `decode('${value.toString('hex')}', 'hex')` : `'${String(value)}'`;
}

/**
 * Takes the number of a batch, $2, away from its writer, $1, or leaves a batch that is done; answers its last id, -1
 * for none. It waits for one that is still at work. In both cases it writes, so that its own commit waits for a
 * synchronous standby, which a batch whose wait was cancelled may not have reached.
 */
export const settle = `INSERT INTO petstore_writers (id, batch, last_id) VALUES ($1::uuid, $2::int8, -1)
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch,
  last_id = CASE WHEN petstore_writers.batch = excluded.batch THEN petstore_writers.last_id ELSE -1 END
  WHERE petstore_writers.batch <= excluded.batch
RETURNING last_id`;

/**
 * The uses of the keys $1, each with its animal where its body is the one of $2 in the same place: such an animal is as
 * long as the record that asks for it, which was counted, while another may be of any length.
 */
export const selectKeys = `SELECT key, used.body, sent_at, pet_id, ${hex} AS json
FROM unnest($1::text[], $2::text[]) AS asked (key, body) JOIN petstore_idempotency AS used USING (key)
LEFT JOIN petstore_pets ON petstore_pets.id = used.pet_id AND used.body = asked.body`;
