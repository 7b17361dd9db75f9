/**
 * All statements, in the SQL that CockroachDB and YugabyteDB have too. Free text is only ever among
 * their values, and every column that comes back is a text or a bytea, which are the same in
 * binary.
 */
import { keptMs } from '../engine/index.js';
import { asByteString } from '../json.js';
import { petStatuses, type PetStatus } from '../pet.js';

/**
 * All of them are run, in this order, in a database of an earlier version, and their number is its
 * version then. So each may be run again; and new ones only add, for servers of the version before
 * may be at work.
 */
export const migrations: readonly string[] = [
  'CREATE TABLE IF NOT EXISTS petstore_schema (name text PRIMARY KEY, version int8 NOT NULL)',
  // As bytes, which no setting converts.
  'CREATE TABLE IF NOT EXISTS petstore_pets (id int8 PRIMARY KEY, status text, json bytea NOT NULL)',
  'CREATE TABLE IF NOT EXISTS petstore_counters (name text PRIMARY KEY, last_id int8 NOT NULL)',
  "INSERT INTO petstore_counters (name, last_id) VALUES ('pets', 0) ON CONFLICT (name) DO NOTHING",
  'CREATE TABLE IF NOT EXISTS petstore_records (kind text, id int8, json bytea NOT NULL, PRIMARY KEY (kind, id))',
  // The last batch and the last id in it.
  'CREATE TABLE IF NOT EXISTS petstore_writers (id uuid PRIMARY KEY, batch int8 NOT NULL, last_id int8 NOT NULL)',
  // As digests; an expired one stays.
  'CREATE TABLE IF NOT EXISTS petstore_idempotency ' +
    '(key text PRIMARY KEY, body text NOT NULL, sent_at int8 NOT NULL, pet_id int8 NOT NULL)',
  // How many animals of each imported source are there, by the digest of the source.
  'CREATE TABLE IF NOT EXISTS petstore_imports (source text PRIMARY KEY, place int8 NOT NULL)',
  // One for each status: a page of one is never dearer than a page of all, whatever the planner
  // takes for common.
  ...petStatuses.map(
    (status) =>
      `CREATE INDEX IF NOT EXISTS petstore_pets_${status} ` +
      `ON petstore_pets (id ASC) WHERE status = '${status}'`,
  ),
];

export const setVersion = `INSERT INTO petstore_schema (name, version) VALUES ('petstore', $1::int8)
ON CONFLICT (name) DO UPDATE SET version = GREATEST(petstore_schema.version, excluded.version)`;

export const selectVersion =
  "SELECT CAST(version AS text) AS version FROM petstore_schema WHERE name = 'petstore'";

/** Bytes of a page of long texts: 100 animals of the default `maxBodyBytes`. */
export const maxPageBytes = 2 ** 23;
/**
 * Bytes of the texts in one answer, to arrive within the time of a statement; of short ones, an
 * equal share.
 */
export const maxAnswerBytes = 2 ** 20;
export const maxIds = 256;
/** In the place of a long text in a page. */
export const tooLong = asByteString('');
/** Words in the errors by which statements end themselves. */
export const notNextWords = 'batches before the next of this writer';
export const keyTakenWords = 'is when this key was used';
export const provenWords = 'records could be stored';

/**
 * Ends a statement by an error 22P02: a count with words after it is no number. Words may hold `'
 * || SQL || '`.
 */
function failing(count: string, words: string): string {
  return `CAST(CAST(${count} AS text) || ' ${words}' AS int8)`;
}

/**
 * The records of a batch under their ids: as many as $3, of statuses $5, '' for none, and texts
 * after the id, $6.
 */
const numberedBatch = `batch AS (
  SELECT last_id - $3::int8 + n AS id, status,
    convert_to('{"id":' || CAST(last_id - $3::int8 + n AS text), 'UTF8') || rest AS json
  FROM taken, unnest($5::text[], $6::bytea[]) WITH ORDINALITY AS drafts (status, rest, n)
)`;

/** Of another name than the column, by whose numbers a page is sorted. */
const digits = 'CAST(id AS text) AS digits';

export const petTable: Table = tableOf(
  'pets',
  'UPDATE petstore_counters SET last_id = last_id + $3::int8 WHERE name = $4::text',
  "petstore_pets (id, status, json) SELECT id, NULLIF(status, ''), json",
  // A status is spelt out, for the planner to choose its index.
  (status) => `petstore_pets WHERE${status === undefined ? '' : ` status = '${status}' AND`}`,
);

/** @param name Of small letters. */
export function recordTable(name: string): Table {
  const kind = `records.${name}`;
  // The first of a kind makes its counter.
  const taking = `INSERT INTO petstore_counters (name, last_id) VALUES ($4::text, $3::int8)
  ON CONFLICT (name) DO UPDATE SET last_id = petstore_counters.last_id + excluded.last_id`;
  const target = `petstore_records (kind, id, json) SELECT '${kind}', id, json`;
  return tableOf(kind, taking, target, () => `petstore_records WHERE kind = '${kind}' AND`);
}

export type Table = ReturnType<typeof tableOf>;

/** @param taking Raises the counter, $4, by $3. @param rowsOf To be followed by a condition. */
function tableOf(
  counter: string,
  taking: string,
  target: string,
  rowsOf: (status?: PetStatus) => string,
) {
  const rows = rowsOf();
  return {
    counter,
    insertBatch: insertInto(taking, target),
    /**
     * Adds texts, $5, of ids, $3, and statuses, $4: raises the counter from $1 to $2, else does
     * nothing.
     */
    adoptBatch: `WITH taken AS (
  INSERT INTO petstore_counters (name, last_id) VALUES ('${counter}', $2::int8)
  ON CONFLICT (name) DO UPDATE SET last_id = excluded.last_id WHERE petstore_counters.last_id = $1::int8
  RETURNING last_id
), stored AS (
  INSERT INTO ${target} FROM taken, unnest($3::int8[], $4::text[], $5::bytea[]) AS adopted (id, status, json)
)
SELECT CAST(last_id AS text) AS last_id FROM taken`,
    selectOne: `SELECT ${digits}, json FROM ${rows} id = $1::int8`,
    /** Null for a long text. */
    selectThese: `SELECT ${digits}, CASE WHEN length(json) <= ${maxAnswerBytes / maxIds} THEN json END AS json
FROM ${rows} id = ANY($1::int8[])`,
    /** By lines, an empty one for a long text; null for none. */
    selectPage: (
      limit: number,
      status?: PetStatus,
    ) => `SELECT string_agg(line, decode('0a', 'hex') ORDER BY id) AS page
FROM (
  SELECT id,
    CASE WHEN length(json) <= ${Math.floor(maxAnswerBytes / limit)} THEN json ELSE decode('', 'hex') END AS line
  FROM ${rowsOf(status)} id > $1::int8 ORDER BY id LIMIT ${limit}
) AS lines`,
    /** In rows, null behind so many bytes. */
    selectLongTexts: (limit: number, bytes: number, status?: PetStatus) => `SELECT ${digits}, CASE
  WHEN sum(length(json)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - length(json) < ${bytes} THEN json
END AS json
FROM ${rowsOf(status)} id > $1::int8 ORDER BY id LIMIT ${limit}`,
  };
}

export const selectCounter =
  'SELECT CAST(last_id AS text) AS last_id FROM petstore_counters WHERE name = $1::text';

export const selectRecordNames = `SELECT substr(name, 9) AS name FROM petstore_counters
WHERE name LIKE 'records.%' AND last_id > 0 ORDER BY name`;

/**
 * The place of source $1, which is 0 at first. It always writes: only a commit waits for the
 * standby, and is behind whatever of that source was still under way.
 */
export const selectPlace = `INSERT INTO petstore_imports (source, place) VALUES ($1::text, 0)
ON CONFLICT (source) DO UPDATE SET place = petstore_imports.place RETURNING CAST(place AS text) AS place`;

/**
 * Adds the animals that follow place $2 of source $1, under the counter $4, and answers no row for
 * another place.
 */
export const importBatch = `WITH placed AS (
  UPDATE petstore_imports SET place = place + $3::int8 WHERE source = $1::text AND place = $2::int8 RETURNING place
), taken AS (
  UPDATE petstore_counters SET last_id = last_id + $3::int8
  WHERE name = $4::text AND EXISTS (SELECT 1 FROM placed) RETURNING last_id
), ${numberedBatch}, stored AS (
  INSERT INTO petstore_pets (id, status, json) SELECT id, NULLIF(status, ''), json FROM batch RETURNING id
)
SELECT CAST(CASE WHEN (SELECT count(*) FROM stored) = $3::int8 THEN place
  ELSE ${failing('(SELECT count(*) FROM stored)', 'rows kept of an import, or no counter')} END AS text) AS place
FROM placed`;

/**
 * Adds a batch, which may be empty: $1 is the writer, $2 the number of its batch, $3 how many
 * records, $4 the counter, $5 their statuses, '' for none (`array_nulls = off` makes a text of a
 * null), $6 their texts after the id; $7 the keys used, $8 the bodies, $9 the times, $10 by which
 * records, from 1. The counter's row stays locked until the commit: ids become visible in order. It
 * answers the last id, or ends itself: a key was used (`keyTakenWords`), the writer has had such a
 * batch, so none is noted (`notNextWords`), a row is missing, or all are there for number 0
 * (`provenWords`).
 */
function insertInto(taking: string, target: string): string {
  const wanted = '$3::int8 + (SELECT count(*) FROM unnest($7::text[]) AS key)';
  const kept = '(SELECT count(*) FROM stored) + (SELECT count(*) FROM kept)';
  return `WITH taken AS (
  ${taking} RETURNING last_id
), noted AS (
  INSERT INTO petstore_writers (id, batch, last_id) SELECT $1::uuid, $2::int8, last_id FROM taken
  ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, last_id = excluded.last_id
    WHERE petstore_writers.batch < excluded.batch
  RETURNING batch
), ${numberedBatch}, stored AS (
  INSERT INTO ${target} FROM batch RETURNING id
), kept AS (
  INSERT INTO petstore_idempotency (key, body, sent_at, pet_id) SELECT key, body, sent_at, last_id - $3::int8 + n
  FROM taken, unnest($7::text[], $8::text[], $9::int8[], $10::int8[]) AS used (key, body, sent_at, n)
  ON CONFLICT (key) DO UPDATE SET body = excluded.body, sent_at = excluded.sent_at,
    pet_id = CASE WHEN abs(excluded.sent_at - petstore_idempotency.sent_at) >= ${keptMs} THEN excluded.pet_id
      ELSE ${failing('petstore_idempotency.sent_at', keyTakenWords)} END
  RETURNING key
)
SELECT CAST(CASE
  WHEN ${kept} = ${wanted} AND EXISTS (SELECT 1 FROM noted)
    THEN CASE $2::int8 WHEN 0 THEN ${failing(kept, provenWords)} ELSE (SELECT last_id FROM taken) END
  WHEN EXISTS (SELECT 1 FROM petstore_writers WHERE id = $1::uuid AND batch >= $2::int8)
    THEN ${failing('(SELECT count(*) FROM noted)', notNextWords)}
  ELSE ${failing(kept, `rows kept of ' || CAST(${wanted} AS text) || ', or no counter or writer`)}
END AS text) AS last_id`;
}

/**
 * The last id of batch $2 of writer $1, or -1 for good. It always writes: only a commit waits for
 * the standby.
 */
export const settle: string = `INSERT INTO petstore_writers (id, batch, last_id) VALUES ($1::uuid, $2::int8, -1)
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch,
  last_id = CASE WHEN petstore_writers.batch = excluded.batch THEN petstore_writers.last_id ELSE -1 END
  WHERE petstore_writers.batch <= excluded.batch
RETURNING CAST(last_id AS text) AS last_id`;

/**
 * The uses of the keys $1, with their animals, which may be long, only where the bodies are those
 * of $2.
 */
export const selectKeys = `SELECT key, used.body,
  CAST(sent_at AS text) AS sent_at, CAST(pet_id AS text) AS pet_id, json
FROM unnest($1::text[], $2::text[]) AS asked (key, body) JOIN petstore_idempotency AS used USING (key)
LEFT JOIN petstore_pets ON petstore_pets.id = used.pet_id AND used.body = asked.body`;
