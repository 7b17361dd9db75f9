/**
 * All SQL statements, in the dialect that CockroachDB and YugabyteDB share. Free text is always
 * passed as a value. Every returned column is text or bytea, because the binary form of these is
 * their bytes.
 */
import { keptMs } from '../engine/index.js';
import { asByteString } from '../json.js';
import type { PetQuery, ReadQuery } from '../storage.js';
import { conditionsOf, filterMigrations, type AddValue } from './filters.js';

/**
 * The statements that create the tables. The version of a database is the number of them that ran
 * there. An upgrade runs all of them again, in this order, so each must be repeatable. New ones
 * must only add, because servers of the previous version may be running.
 */
export const migrations: readonly string[] = [
  'CREATE TABLE IF NOT EXISTS petstore_schema (name text PRIMARY KEY, version int8 NOT NULL)',

  // JSON is stored as bytes, which no setting converts.
  `CREATE TABLE IF NOT EXISTS petstore_pets (
  id int8 PRIMARY KEY, status text, json bytea NOT NULL
)`,

  'CREATE TABLE IF NOT EXISTS petstore_counters (name text PRIMARY KEY, last_id int8 NOT NULL)',
  "INSERT INTO petstore_counters (name, last_id) VALUES ('pets', 0) ON CONFLICT (name) DO NOTHING",

  `CREATE TABLE IF NOT EXISTS petstore_records (
  kind text, id int8, json bytea NOT NULL, PRIMARY KEY (kind, id)
)`,

  // A writer's row has the number and the last id of its last batch.
  `CREATE TABLE IF NOT EXISTS petstore_writers (
  id uuid PRIMARY KEY, batch int8 NOT NULL, last_id int8 NOT NULL
)`,

  // Keys and bodies are digests.
  `CREATE TABLE IF NOT EXISTS petstore_idempotency (
  key text PRIMARY KEY, body text NOT NULL, sent_at int8 NOT NULL, pet_id int8 NOT NULL
)`,

  // The place is the number of pets of a source that are stored. A source is named by its digest.
  'CREATE TABLE IF NOT EXISTS petstore_imports (source text PRIMARY KEY, place int8 NOT NULL)',

  ...filterMigrations,
];

/**
 * Returns the name of the index that a migration creates, if any. An index that exists is not
 * created again, because even CREATE INDEX IF NOT EXISTS waits for adds.
 */
export function indexMadeBy(migration: string): string | undefined {
  return /^CREATE INDEX IF NOT EXISTS (\w+)/.exec(migration)?.[1];
}

/** Returns the names of the indexes that exist. */
export const selectIndexes = `SELECT CAST(indexname AS text) AS name FROM pg_indexes
WHERE schemaname = current_schema() AND tablename = 'petstore_pets'`;

/** Sets the version to $1 unless it is higher. */
export const setVersion = `INSERT INTO petstore_schema (name, version)
VALUES ('petstore', $1::int8)
ON CONFLICT (name) DO UPDATE SET version = GREATEST(petstore_schema.version, excluded.version)`;

/** Returns the version. */
export const selectVersion =
  "SELECT CAST(version AS text) AS version FROM petstore_schema WHERE name = 'petstore'";

/**
 * The longest page of long texts in bytes, including a comma for each (C6): 100 pets of the default
 * `maxBodyBytes`. A longer text is a page of its own.
 */
export const maxPageBytes = 2 ** 23;

/**
 * The most bytes of texts in one result, which must arrive within the time of a statement. A text
 * is long if it exceeds an equal share of them.
 */
export const maxResultBytes = 2 ** 20;

/** The most ids that one statement reads. */
export const maxIds = 256;

/** Replaces a long text in a page. */
export const tooLong = asByteString('');

// Statements that fail on purpose have one of these texts in their error.

/** The writer's row has the batch's number or a higher one. */
export const numberTakenWords = 'batches before the next of this writer';

/** An idempotency key was used before; the number in the error is the time of that use. */
export const keyTakenWords = 'is when this key was used';

/** The batch was a rehearsal, and nothing is missing. */
export const rehearsedWords = 'records could be stored';

/**
 * Returns an SQL expression that raises an error. It casts a text that is not a number to int8,
 * which fails with SQLSTATE 22P02 when the expression is evaluated. The parts alternate between an
 * SQL expression and literal words, because a constant text would fail when the statement is
 * planned.
 */
function raise(...numbersAndWords: readonly string[]) {
  const texts = numbersAndWords.map((part, index) =>
    index % 2 === 0 ? `CAST(${part} AS text)` : `'${part}'`,
  );
  return `CAST(${texts.join(' || ')} AS int8)`;
}

/**
 * Selects the $3 records of a batch with their ids, which end at the counter's new value. $5 are
 * the statuses, '' for none. $6 are the texts after the id.
 */
const numberedBatch = `batch AS (
  SELECT last_id - $3::int8 + n AS id, status,
    convert_to('{"id":' || CAST(last_id - $3::int8 + n AS text), 'UTF8') || rest AS json
  FROM taken, unnest($5::text[], $6::bytea[]) WITH ORDINALITY AS drafts (status, rest, n)
)`;

/** The id as text. Its name differs from the column's, because pages are sorted by that. */
const digits = 'CAST(id AS text) AS digits';

/** An SQL statement with its values. */
export interface Statement {
  readonly sql: string;
  readonly values: (string | bigint)[];
}

/** The statements for the records of one kind. */
export interface Table {
  /** The name of its row in `petstore_counters`, which has the last id given. */
  readonly counter: string;

  /**
   * Adds a batch, which may be empty, by the protocol of batch-writer.ts. $1 writer; $2 number of
   * its batch; $3 number of records; $4 counter; $5 statuses, '' for none, because `array_nulls =
   * off` would turn a null into a text; $6 texts after the id; $7 idempotency keys; $8 bodies; $9
   * times; $10 positions of the records that use the keys, from 1.
   *
   * It returns the last id. It fails if a key was used before (`keyTakenWords`), if the writer's
   * row has this number or a higher one (`numberTakenWords`), if a row was not stored, or if the
   * number is 0 and nothing else is wrong (`rehearsedWords`).
   */
  readonly insertBatch: string;

  /**
   * Adds the texts $5 with the ids $3 and the statuses $4, and raises the counter from $1 to $2. If
   * the counter is not $1, it does nothing and returns no row.
   */
  readonly adoptBatch: string;

  /** Returns the id and the text of the record $1. */
  readonly selectOne: string;

  /** Returns the ids and the texts of the records $1; null replaces a long text. */
  readonly selectMany: string;

  /**
   * Selects the texts of a query as lines of one text; null if there are none. An empty line
   * replaces a long text.
   */
  selectPage(query: PetQuery): Statement;

  /**
   * Selects the ids and texts of a query. A text is null if it and the texts before it exceed
   * `bytes`, commas included. The first text is null only if it is longer than `firstBytes`.
   */
  selectLongTexts(query: PetQuery, bytes: number, firstBytes: number): Statement;
}

/** The table of pets. */
export const petTable: Table = tableOf(
  'pets',
  'UPDATE petstore_counters SET last_id = last_id + $3::int8 WHERE name = $4::text',
  "petstore_pets (id, status, json) SELECT id, NULLIF(status, ''), json",
  'petstore_pets WHERE',
  conditionsOf,
);

/**
 * Returns the table of a plugin's records.
 * @param name Must be lowercase letters, because the statements contain it.
 */
export function recordTable(name: string): Table {
  const kind = `records.${name}`;

  return tableOf(
    kind,
    // The first record of a kind makes its counter.
    `INSERT INTO petstore_counters (name, last_id) VALUES ($4::text, $3::int8)
  ON CONFLICT (name) DO UPDATE SET last_id = petstore_counters.last_id + excluded.last_id`,
    `petstore_records (kind, id, json) SELECT '${kind}', id, json`,
    `petstore_records WHERE kind = '${kind}' AND`,
    () => '',
  );
}

/**
 * Returns a table by the parts of its statements.
 * @param raiseCounter Raises the counter $4 by $3; a RETURNING clause is appended.
 * @param target The table and columns of an INSERT, and the list that it selects from `batch`.
 * @param rows The table of a SELECT with WHERE; conditions are appended.
 * @param conditions Returns the conditions of a query's filter.
 */
function tableOf(
  counter: string,
  raiseCounter: string,
  target: string,
  rows: string,
  conditions: (query: PetQuery, addValue: AddValue) => string,
): Table {
  /** Returns the statement that `select` builds on the rows of a query. */
  function selectFrom(query: PetQuery, select: (matches: string) => string): Statement {
    const { limit, after = 0n }: ReadQuery<'limit' | 'after'> = query;
    const values: (string | bigint)[] = [after];
    const filter = conditions(query, (value) => `$${values.push(value)}`);

    // A literal, so that the planner knows the limit. Each limit is a statement of its own.
    const sql = select(`${rows}${filter} id > $1::int8 ORDER BY id LIMIT ${limit}`);
    return { sql, values };
  }

  return {
    counter,
    insertBatch: insertInto(target, raiseCounter),

    adoptBatch: `WITH taken AS (
  INSERT INTO petstore_counters (name, last_id) VALUES ('${counter}', $2::int8)
  ON CONFLICT (name) DO UPDATE SET last_id = excluded.last_id
    WHERE petstore_counters.last_id = $1::int8
  RETURNING last_id
), stored AS (
  INSERT INTO ${target}
  FROM taken, unnest($3::int8[], $4::text[], $5::bytea[]) AS adopted (id, status, json)
)
SELECT CAST(last_id AS text) AS last_id FROM taken`,

    selectOne: `SELECT ${digits}, json FROM ${rows} id = $1::int8`,

    selectMany: `SELECT ${digits},
  CASE WHEN length(json) <= ${maxResultBytes / maxIds} THEN json END AS json
FROM ${rows} id = ANY($1::int8[])`,

    selectPage: (query) =>
      selectFrom(
        query,
        (matches) => `SELECT
  string_agg(line, decode('0a', 'hex') ORDER BY id) AS page
FROM (
  SELECT id, CASE WHEN length(json) <= ${Math.floor(maxResultBytes / query.limit)} THEN json
    ELSE decode('', 'hex') END AS line
  FROM ${matches}
) AS lines`,
      ),

    selectLongTexts: (query, bytes, firstBytes) =>
      selectFrom(
        query,
        (matches) => `SELECT ${digits}, CASE
  WHEN sum(length(json) + 1) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) <= ${bytes} THEN json
  WHEN row_number() OVER (ORDER BY id) = 1 AND length(json) < ${firstBytes} THEN json
END AS json
FROM ${matches}`,
      ),
  };
}

/** Returns the statement `insertBatch` of a table. */
function insertInto(target: string, raiseCounter: string) {
  const wanted = '$3::int8 + (SELECT count(*) FROM unnest($7::text[]) AS key)';
  const kept = '(SELECT count(*) FROM stored) + (SELECT count(*) FROM kept)';

  const keyTaken = raise('petstore_idempotency.sent_at', ` ${keyTakenWords}`);
  const rehearsed = raise(kept, ` ${rehearsedWords}`);
  const numberTaken = raise('(SELECT count(*) FROM noted)', ` ${numberTakenWords}`);
  const rowMissing = raise(kept, ' rows kept of ', wanted, ', or no counter or writer');

  return `WITH taken AS (
  ${raiseCounter} RETURNING last_id
), noted AS (
  INSERT INTO petstore_writers (id, batch, last_id)
  SELECT $1::uuid, $2::int8, last_id FROM taken
  ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, last_id = excluded.last_id
    WHERE petstore_writers.batch < excluded.batch
  RETURNING batch
), ${numberedBatch}, stored AS (
  INSERT INTO ${target} FROM batch RETURNING id
), kept AS (
  INSERT INTO petstore_idempotency (key, body, sent_at, pet_id)
  SELECT key, body, sent_at, last_id - $3::int8 + n
  FROM taken, unnest($7::text[], $8::text[], $9::int8[], $10::int8[])
    AS used (key, body, sent_at, n)
  ON CONFLICT (key) DO UPDATE SET body = excluded.body, sent_at = excluded.sent_at,
    pet_id = CASE
      WHEN excluded.sent_at - petstore_idempotency.sent_at >= ${keptMs} THEN excluded.pet_id
      ELSE ${keyTaken}
    END
  RETURNING key
)
SELECT CAST(CASE
  WHEN ${kept} = ${wanted}
    AND EXISTS (SELECT 1 FROM noted)
    THEN CASE $2::int8 WHEN 0 THEN ${rehearsed}
      ELSE (SELECT last_id FROM taken) END
  WHEN EXISTS (SELECT 1 FROM petstore_writers WHERE id = $1::uuid AND batch >= $2::int8)
    THEN ${numberTaken}
  ELSE ${rowMissing}
END AS text) AS last_id`;
}

/**
 * Returns the last id of batch $2 of writer $1. It returns -1, or no row, if the batch is not
 * stored and no longer can be. It always writes, because only a commit waits for a synchronous
 * standby.
 */
export const settle = `INSERT INTO petstore_writers (id, batch, last_id)
VALUES ($1::uuid, $2::int8, -1)
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, last_id = CASE
    WHEN petstore_writers.batch = excluded.batch THEN petstore_writers.last_id
    ELSE -1
  END
  WHERE petstore_writers.batch <= excluded.batch
RETURNING CAST(last_id AS text) AS last_id`;

/**
 * Returns the uses of the keys $1. The pet, which may be long, is returned only if its key was used
 * with the body in $2.
 */
export const selectKeys = `SELECT key, used.body,
  CAST(sent_at AS text) AS sent_at, CAST(pet_id AS text) AS pet_id, json
FROM unnest($1::text[], $2::text[]) AS sought (key, body)
JOIN petstore_idempotency AS used USING (key)
LEFT JOIN petstore_pets ON petstore_pets.id = used.pet_id AND used.body = sought.body`;

/** Returns the time of the database in milliseconds since the epoch. */
export const selectTime =
  'SELECT CAST(CAST(extract(epoch FROM now()) * 1000 AS int8) AS text) AS now';

/** Returns the last id of the counter $1. */
export const selectCounter =
  'SELECT CAST(last_id AS text) AS last_id FROM petstore_counters WHERE name = $1::text';

/** Returns the names under which plugins keep records. */
export const selectRecordNames = `SELECT substr(name, 9) AS name FROM petstore_counters
WHERE name LIKE 'records.%' AND last_id > 0 ORDER BY name`;

/** Returns the imported sources, or the beginnings of sources, and their numbers of pets. */
export const selectImports =
  'SELECT source, CAST(place AS text) AS place FROM petstore_imports WHERE place > 0';

/**
 * Raises the place of source $1 to $2 at least, and returns it. It always writes, because only a
 * commit waits for a synchronous standby, and for a statement of that source that is in flight.
 */
export const selectPlace = `INSERT INTO petstore_imports (source, place)
VALUES ($1::text, $2::int8)
ON CONFLICT (source) DO UPDATE SET place = GREATEST(petstore_imports.place, excluded.place)
RETURNING CAST(place AS text) AS place`;

const importRowMissing = raise(
  '(SELECT count(*) FROM stored)',
  ' rows kept of an import, or no counter',
);

/**
 * Adds the $3 pets that follow place $2 of source $1, and returns the new place. $4 is the counter;
 * $5 and $6 are as in `insertBatch`. $7 are the names that get the new place: the source, and the
 * digest of its beginning if it is known. If that digest exists already, another import has added
 * the pets, and only the place changes. If the source is at another place, the statement does
 * nothing and returns no row.
 */
export const importBatch = `WITH noted AS (
  INSERT INTO petstore_imports (source, place)
  SELECT name, $2::int8 + $3::int8 FROM unnest($7::text[]) AS names (name)
  WHERE EXISTS (SELECT 1 FROM petstore_imports WHERE source = $1::text AND place = $2::int8)
  ON CONFLICT (source) DO UPDATE SET place = excluded.place
    WHERE petstore_imports.place = $2::int8
  RETURNING source, place
), placed AS (
  SELECT place, (SELECT count(*) FROM noted) = array_length($7::text[], 1) AS is_new
  FROM noted WHERE source = $1::text
), taken AS (
  UPDATE petstore_counters SET last_id = last_id + $3::int8
  WHERE name = $4::text AND EXISTS (SELECT 1 FROM placed WHERE is_new)
  RETURNING last_id
), ${numberedBatch}, stored AS (
  INSERT INTO petstore_pets (id, status, json)
  SELECT id, NULLIF(status, ''), json FROM batch
  RETURNING id
)
SELECT CAST(CASE
  WHEN (SELECT count(*) FROM stored) = CASE WHEN is_new THEN $3::int8 ELSE 0 END THEN place
  ELSE ${importRowMissing}
END AS text) AS place
FROM placed`;
