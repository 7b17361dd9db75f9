/**
 * All statements, in the SQL that CockroachDB and YugabyteDB have too. Free text is only ever among
 * their values. Every column that comes back is a text or a bytea, whose binary form is its bytes.
 */
import { keptMs } from '../engine/index.js';
import { asByteString } from '../json.js';
import type { PetQuery, ReadQuery } from '../storage.js';
import { conditionsOf, filterMigrations, type AddValue } from './filters.js';

/**
 * What makes the tables. The version of a database is the number of these statements that were run
 * there. A database of an earlier version has all of them run, in this order, so each may be run
 * again. New ones only add, for servers of the version before may be at work meanwhile.
 */
export const migrations: readonly string[] = [
  'CREATE TABLE IF NOT EXISTS petstore_schema (name text PRIMARY KEY, version int8 NOT NULL)',

  // JSON texts are kept as bytes, which no setting converts.
  `CREATE TABLE IF NOT EXISTS petstore_pets (
  id int8 PRIMARY KEY, status text, json bytea NOT NULL
)`,

  'CREATE TABLE IF NOT EXISTS petstore_counters (name text PRIMARY KEY, last_id int8 NOT NULL)',
  "INSERT INTO petstore_counters (name, last_id) VALUES ('pets', 0) ON CONFLICT (name) DO NOTHING",

  `CREATE TABLE IF NOT EXISTS petstore_records (
  kind text, id int8, json bytea NOT NULL, PRIMARY KEY (kind, id)
)`,

  // A writer's row has the number of its last batch, and the last id in that.
  `CREATE TABLE IF NOT EXISTS petstore_writers (
  id uuid PRIMARY KEY, batch int8 NOT NULL, last_id int8 NOT NULL
)`,

  // Keys and bodies are digests. The row of an expired key stays.
  `CREATE TABLE IF NOT EXISTS petstore_idempotency (
  key text PRIMARY KEY, body text NOT NULL, sent_at int8 NOT NULL, pet_id int8 NOT NULL
)`,

  // The place says how many animals of a source, which is told by its digest, are there.
  'CREATE TABLE IF NOT EXISTS petstore_imports (source text PRIMARY KEY, place int8 NOT NULL)',

  ...filterMigrations,
];

/** The index that a migration makes, if any: even where it is there, making it waits for adds. */
export function indexMadeBy(migration: string): string | undefined {
  return /^CREATE INDEX IF NOT EXISTS (\w+)/.exec(migration)?.[1];
}

/** The indexes that are there. */
export const selectIndexes = `SELECT CAST(indexname AS text) AS name FROM pg_indexes
WHERE schemaname = current_schema() AND tablename = 'petstore_pets'`;

/** Sets the version to $1, where it is not higher already. */
export const setVersion = `INSERT INTO petstore_schema (name, version)
VALUES ('petstore', $1::int8)
ON CONFLICT (name) DO UPDATE SET version = GREATEST(petstore_schema.version, excluded.version)`;

/** Answers the version. */
export const selectVersion =
  "SELECT CAST(version AS text) AS version FROM petstore_schema WHERE name = 'petstore'";

/**
 * The most bytes of a page of long texts, a comma for each included (C6): 100 pets of the default
 * `maxBodyBytes`. A longer text is a page of its own.
 */
export const maxPageBytes = 2 ** 23;

/**
 * Bytes of the texts in one answer, which must arrive within the time of a statement. A text is
 * long where it is over an equal share of them.
 */
export const maxAnswerBytes = 2 ** 20;

/** How many ids one statement may read. */
export const maxIds = 256;

/** Stands in the place of a long text in a page. */
export const tooLong = asByteString('');

// By these words one tells the errors by which statements end themselves.

/** The writer's row has the batch's number, or a higher one. */
export const numberTakenWords = 'batches before the next of this writer';

/** An idempotency key was used before. */
export const keyTakenWords = 'is when this key was used';

/** All is there; the batch was a rehearsal. */
export const rehearsedWords = 'records could be stored';

/**
 * The SQL of a number that, where it is wanted, ends the statement by an error 22P02: numbers and
 * words in turns make no number. The numbers are SQL, counted as the statement runs; words alone
 * would fail as they are planned.
 */
function raise(...numbersAndWords: readonly string[]) {
  const texts = numbersAndWords.map((part, index) =>
    index % 2 === 0 ? `CAST(${part} AS text)` : `'${part}'`,
  );
  return `CAST(${texts.join(' || ')} AS int8)`;
}

/**
 * The records of a batch under their ids, which end at the counter's new value: as many as $3, of
 * the statuses $5, where '' is none, and the texts $6, which follow the ids.
 */
const numberedBatch = `batch AS (
  SELECT last_id - $3::int8 + n AS id, status,
    convert_to('{"id":' || CAST(last_id - $3::int8 + n AS text), 'UTF8') || rest AS json
  FROM taken, unnest($5::text[], $6::bytea[]) WITH ORDINALITY AS drafts (status, rest, n)
)`;

/** An id as a text. It has another name than the column, by whose numbers a page is sorted. */
const digits = 'CAST(id AS text) AS digits';

/** A statement with its values. */
export interface Statement {
  readonly sql: string;
  readonly values: (string | bigint)[];
}

/** One kind of records: its counter, and the statements for it. */
export interface Table {
  /** The name of the row in `petstore_counters` that has the last id given. */
  readonly counter: string;

  /**
   * Adds a batch, which may be empty, by the protocol of writer.ts. $1 is the writer, $2 the number
   * of its batch, $3 how many records it has, $4 the counter. $5 are their statuses, where '' is
   * none, for `array_nulls = off` makes a text of a null; $6 their texts after the id. $7 are the
   * idempotency keys used, $8 the bodies, $9 the times, $10 by which records, from 1.
   *
   * It answers the last id, or ends itself by an error: a key was used before (`keyTakenWords`),
   * the writer's row has such a number (`numberTakenWords`), a row was not kept, or nothing is
   * wrong and the number is 0 (`rehearsedWords`).
   */
  readonly insertBatch: string;

  /**
   * Adds the texts $5 of the ids $3 and the statuses $4, and raises the counter from $1 to $2. It
   * does nothing, and answers no row, where the counter is elsewhere.
   */
  readonly adoptBatch: string;

  /** Answers the id and the text of the record $1. */
  readonly selectOne: string;

  /** The same for the records $1; null stands for a long text. */
  readonly selectMany: string;

  /**
   * Selects the texts of a query as one text, line by line. An empty line stands for a long text,
   * null for no records.
   */
  selectPage(query: PetQuery): Statement;

  /**
   * Selects the ids and texts of a query. A text is null if it ends behind so many bytes of texts
   * and commas; the first one, if it is longer than `firstBytes`.
   */
  selectLongTexts(query: PetQuery, bytes: number, firstBytes: number): Statement;
}

/** The animals. */
export const petTable: Table = tableOf(
  'pets',
  'UPDATE petstore_counters SET last_id = last_id + $3::int8 WHERE name = $4::text',
  "petstore_pets (id, status, json) SELECT id, NULLIF(status, ''), json",
  'petstore_pets WHERE',
  conditionsOf,
);

/** Records of a plugin. @param name One of small letters, for it stands in the statements. */
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
 * A table of its parts.
 * @param counter The name of its counter.
 * @param raiseCounter The statement that raises the counter $4 by $3; what it returns follows.
 * @param target What is inserted into, with the columns of `batch`, from which it is to select.
 * @param rows What is selected from; conditions follow.
 * @param conditions Returns the conditions of a query's filter.
 */
function tableOf(
  counter: string,
  raiseCounter: string,
  target: string,
  rows: string,
  conditions: (query: PetQuery, addValue: AddValue) => string,
): Table {
  /** Returns the statement that `select` makes of the rows of a query. */
  function selectFrom(query: PetQuery, select: (matches: string) => string): Statement {
    const { limit, after = 0n }: ReadQuery<'limit' | 'after'> = query;
    const values: (string | bigint)[] = [after];
    const filter = conditions(query, (value) => `$${values.push(value)}`);

    // A limit that is spelled out makes another statement.
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
  CASE WHEN length(json) <= ${maxAnswerBytes / maxIds} THEN json END AS json
FROM ${rows} id = ANY($1::int8[])`,

    selectPage: (query) =>
      selectFrom(
        query,
        (matches) => `SELECT
  string_agg(line, decode('0a', 'hex') ORDER BY id) AS page
FROM (
  SELECT id, CASE WHEN length(json) <= ${Math.floor(maxAnswerBytes / query.limit)} THEN json
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

/** The statement `insertBatch` of a table. */
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
 * Answers the last id of batch $2 of writer $1; -1, or no row, where it is not stored, and never
 * will be. It writes in any case, for only a commit waits for the standby.
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
 * Answers the uses of the keys $1. An animal, which may be long, comes only where its key was used
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

/** Answers the last id of the counter $1. */
export const selectCounter =
  'SELECT CAST(last_id AS text) AS last_id FROM petstore_counters WHERE name = $1::text';

/** Answers the names under which plugins keep records. */
export const selectRecordNames = `SELECT substr(name, 9) AS name FROM petstore_counters
WHERE name LIKE 'records.%' AND last_id > 0 ORDER BY name`;

/** Returns the sources that were imported, or their first pets, and how many these are. */
export const selectImports =
  'SELECT source, CAST(place AS text) AS place FROM petstore_imports WHERE place > 0';

/**
 * Returns the place of source $1, which is $2 at least. It writes in any case: only a commit waits
 * for the standby, and comes behind whatever of that source was still under way.
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
 * Adds the pets that follow place $2 of source $1, under the counter $4, and returns the place
 * behind them. $7 are the names that the place is kept under: the source, and the digest of its
 * first pets if it is known. If the digest is there already, another import has added the pets,
 * and the place alone is kept. It does nothing, and returns no row, if the source is at another
 * place.
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
