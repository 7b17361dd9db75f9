/**
 * All SQL statements, in the dialect that CockroachDB and YugabyteDB share. Free text is always
 * passed as a value. Every returned column is text or bytea, because the binary form of these is
 * their bytes. Every name has its schema (see sql-text.ts).
 */
import { keptMs } from '../engine/index.js';
import { asByteString } from '../json.js';
import type { PetQuery, ReadQuery } from '../storage.js';
import { conditionsOf, filterMigrations, type AddValue } from './filters.js';
import { cast, concat, identifier, nullIfEmpty, op, unnest } from './sql-text.js';

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

/** The batch was a rehearsal, and its records could have been stored. */
export const rehearsedWords = 'records could be stored';

/**
 * Returns the schema of the tables: the first schema of `search_path` that has them, else the first
 * one. A session of ours has an empty `search_path`; the statement then uses the setting with which
 * the session began.
 */
export const selectSchema = `SELECT ${cast('schemas.name', 'text')} AS name,
  CASE WHEN class.oid IS NULL THEN '' ELSE 'has tables' END AS tables
FROM (
  SELECT pg_catalog.current_schemas(false) AS names
  FROM (
    SELECT pg_catalog.set_config(
      'search_path', CASE WHEN ${op('setting', '=', "''")} THEN reset_val ELSE setting END, true
    )
    FROM pg_catalog.pg_settings WHERE ${op('name', '=', "'search_path'")} OFFSET 0
  ) AS path
  OFFSET 0
) AS found
CROSS JOIN LATERAL pg_catalog.unnest(found.names) WITH ORDINALITY AS schemas (name, position)
JOIN pg_catalog.pg_namespace AS namespace ON ${op('namespace.nspname', '=', 'schemas.name')}
LEFT JOIN pg_catalog.pg_class AS class
  ON ${op('class.relnamespace', '=', 'namespace.oid')}
  AND ${op('class.relname', '=', "'petstore_schema'")}
ORDER BY class.oid IS NULL, position LIMIT 1`;

/**
 * Returns the roles that may create objects in the schema $1, without its owner and the current
 * role. `PUBLIC` stands for all roles.
 */
export const selectCreators = `SELECT DISTINCT
  CASE WHEN ${op('acl.grantee', '=', cast('0', 'oid'))} THEN 'PUBLIC'
  ELSE ${cast('pg_catalog.pg_get_userbyid(acl.grantee)', 'text')} END AS name
FROM pg_catalog.pg_namespace AS namespace
CROSS JOIN LATERAL pg_catalog.aclexplode(
  COALESCE(nspacl, pg_catalog.acldefault(${cast("'n'", '"char"')}, nspowner))
) AS acl
WHERE ${op(cast('nspname', 'text'), '=', cast('$1', 'text'))}
  AND ${op('acl.privilege_type', '=', "'CREATE'")} AND ${op('acl.grantee', '<>', 'nspowner')}
  AND ${op('pg_catalog.pg_get_userbyid(acl.grantee)', '<>', 'CURRENT_USER')}`;

/** Returns the names of tables in the schema $1 whose rows a policy may hide from this role. */
export const selectRowSecurity = `SELECT ${cast('class.relname', 'text')} AS name
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON ${op('namespace.oid', '=', 'class.relnamespace')}
WHERE ${op(cast('namespace.nspname', 'text'), '=', cast('$1', 'text'))}
  AND ${op('pg_catalog.substr(class.relname, 1, 9)', '=', "'petstore_'")}
  AND pg_catalog.row_security_active(class.oid) ORDER BY class.relname`;

/**
 * Returns the results of migrations in the schema $1: the names of its indexes, and of the tables
 * that store JSON without compression.
 */
export const selectMade = `SELECT ${cast('class.relname', 'text')} AS name
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS namespace ON ${op('namespace.oid', '=', 'class.relnamespace')}
LEFT JOIN pg_catalog.pg_attribute AS attribute
  ON ${op('attribute.attrelid', '=', 'class.oid')} AND ${op('attribute.attname', '=', "'json'")}
WHERE ${op(cast('namespace.nspname', 'text'), '=', cast('$1', 'text'))}
  AND (
    ${op('class.relkind', '=', cast("'i'", '"char"'))}
    OR ${op('attribute.attstorage', '=', cast("'e'", '"char"'))}
  )`;

/** The time of the database in milliseconds since the epoch. */
const databaseTime = cast(
  op("pg_catalog.date_part('epoch', pg_catalog.now())", '*', '1000'),
  'int8',
);

/** Returns a time in milliseconds since the epoch, as text with a fraction. */
const epochMs = (time: string) =>
  cast(op(`pg_catalog.date_part('epoch', ${time})`, '*', '1000'), 'text');

/** Returns the time of the database in milliseconds since the epoch. */
export const selectTime = `SELECT ${cast(databaseTime, 'text')} AS now`;

/** For how many ms a server has the lease to delete expired keys; it renews the lease. */
const leaseMs = 30_000;

/**
 * For how many ms a key is kept after its 24 hours, because the clocks of servers may differ a
 * little.
 */
const marginMs = 3_600_000;

/**
 * Returns the name by which `selectMade` shows that a migration has run, if any. Such a migration
 * does not run again, because even CREATE INDEX IF NOT EXISTS waits for adds.
 */
export function madeBy(migration: string): string | undefined {
  const [, index, table] =
    /^(?:CREATE INDEX IF NOT EXISTS (\w+)|ALTER TABLE .+\.(\w+) ALTER)/s.exec(migration) ?? [];
  return index ?? table;
}

/**
 * True if a migration locks a table against all reads. It takes no time itself, but while it waits
 * for the lock, all later statements wait behind it.
 */
export function locksTable(migration: string): boolean {
  return migration.startsWith('ALTER TABLE ');
}

/** An SQL statement with its values. */
export interface Statement {
  readonly sql: string;
  readonly values: (string | bigint)[];
}

/** The statements for the records of one kind. */
export interface Table {
  /** The name of its row in `petstore_counters`, which has the last id given. */
  readonly counter: string;

  /** Returns the last id of the counter $1. */
  readonly selectCounter: string;

  /**
   * Adds a batch by the protocol of batch-writer.ts. An empty batch does not touch the counter, so
   * that it never waits for other servers. $1 writer; $2 number of its batch; $3 number of records;
   * $4 counter; $5 statuses, '' for none, because `array_nulls = off` would turn a null into a
   * text; $6 texts after the id; $7 idempotency keys; $8 bodies; $9 times; $10 positions of the
   * records that use the keys, from 1.
   *
   * It returns the last id, or 0 for an empty batch; and the `BatchTimes` as `received_at`,
   * `taken_at` and `ended_at`. It fails if a key was used before (`keyTakenWords`), if the writer's
   * row has this number or a higher one (`numberTakenWords`), if a row was not stored, or if the
   * number is 0 and nothing else is wrong (`rehearsedWords`).
   */
  readonly insertBatch: string;

  /**
   * Adds the texts $5 with the ids $3 and the statuses $4, and raises the counter from $1 to $2. If
   * the counter is not $1, it does nothing and returns no row. It fails if a row was not stored.
   */
  readonly adoptBatch: string;

  /** Returns the id and the text of the record $1. */
  readonly selectOne: string;

  /** Returns the ids and the texts of the records $1; null replaces a long text. */
  readonly selectMany: string;

  /**
   * Selects the texts of a query as lines of one text, or null if no record matches. An empty line
   * replaces a long text.
   */
  selectPage(query: PetQuery): Statement;

  /**
   * Selects the ids and texts of a query. A text is null if it and the texts before it exceed
   * `bytes`, commas included. The first text is null only if it is longer than `firstBytes`.
   */
  selectLongTexts(query: PetQuery, bytes: number, firstBytes: number): Statement;
}

/** The statements for the tables in one schema. */
export interface Statements {
  /**
   * The statements that create the tables. The version of a database is the number of them that ran
   * there. An upgrade runs all of them again, in this order, so each must be repeatable. New ones
   * must only add, because servers of the previous version may be running.
   */
  readonly migrations: readonly string[];

  /**
   * Sets the version to $1, and the lowest version of a program that can serve the tables to $2,
   * unless they are higher. The row of the lowest version is named `petstore`, because the release
   * 1.0.0 reads only that row, and requires its own version there.
   */
  readonly setVersion: string;

  /** Returns the version, and the lowest version of a program that can serve the tables. */
  readonly selectVersion: string;

  /** The table of pets. */
  readonly petTable: Table;

  /**
   * Returns the table of a plugin's records.
   * @param name Must be lowercase letters, because the statements contain it.
   */
  recordTable(name: string): Table;

  /** Returns the names under which plugins keep records. */
  readonly selectRecordNames: string;

  /**
   * Returns the last id of batch $2 of writer $1. It returns -1, or no row, if the batch is not
   * stored and no longer can be. It always writes, because only a commit waits for a synchronous
   * standby.
   */
  readonly settle: string;

  /**
   * Returns the uses of the keys $1. The pet, which may be long, is returned only if its key was
   * used with the body in $2. LATERAL and LIMIT make the planner look up each key by the index,
   * even if the tables were empty when the statement was planned.
   */
  readonly selectKeys: string;

  /**
   * Deletes at most $4 idempotency keys that have expired both at the time $2 and by the clock of
   * the database. Deletes nothing while another server holds the lease; $1 is the id of this
   * server. Begins with keys that were used at the time $3, because scanning deleted rows is slow.
   * Returns the number of deleted keys and the latest time of use among them.
   */
  readonly deleteExpiredKeys: string;

  /** Returns the digest of each imported source or beginning, and its number of stored pets. */
  readonly selectImports: string;

  /**
   * Returns the place of source $1: the number of its pets that are stored. Raises it to $2 if it
   * is lower. Always writes a row: the row lock waits for a concurrent import of the same source,
   * and the commit waits for a synchronous standby.
   */
  readonly selectPlace: string;

  /**
   * Adds the next $3 pets of source $1 if its place is $2, and returns the new place. Otherwise it
   * does nothing and returns no row. $4 is the counter; $5 and $6 are as in `insertBatch`. $7 lists
   * the digests whose place is set: that of the source and, if known, that of its beginning. If the
   * digest of the beginning has a place already, another import has added these pets, so only the
   * place of the source changes.
   */
  readonly importBatch: string;
}

// Values by their types.
const int8 = (value: string) => cast(value, 'int8');
const text = (value: string) => cast(value, 'text');
const uuid = (value: string) => cast(value, 'uuid');
const list = (value: string, type: string) => cast(value, `${type}[]`);
const equal = (left: string, right: string) => op(left, '=', right);
const plus = (left: string, right: string) => op(left, '+', right);
const minus = (left: string, right: string) => op(left, '-', right);
const countOf = (rows: string) => `(SELECT pg_catalog.count(*) FROM ${rows})`;

/**
 * Returns an SQL expression that raises an error. It casts a text that is not a number to int8,
 * which fails with SQLSTATE 22P02 when the expression is evaluated. The parts alternate between an
 * SQL expression and literal words, because a constant text would fail when the statement is
 * planned.
 */
function raise(...numbersAndWords: readonly string[]) {
  const texts = numbersAndWords.map((part, index) => (index % 2 === 0 ? text(part) : `'${part}'`));
  return int8(concat(...texts));
}

/** The id as text, under a name of its own, so that ORDER BY id sorts by the column `id`. */
const digits = `${text('id')} AS digits`;

/**
 * Selects the $3 records of a batch with their ids, which end at the counter's new value. $5 are
 * the statuses, '' for none. $6 are the texts after the id.
 */
const batchId = plus(minus('last_id', int8('$3')), 'n');
const numberedBatch = `batch AS (
  SELECT ${batchId} AS id, status, ${concat(
    `pg_catalog.convert_to(${concat(`'{"id":'`, text(batchId))}, ${cast("'UTF8'", 'name')})`,
    'rest',
  )} AS json
  FROM taken, ${unnest(list('$5', 'text'), list('$6', 'bytea'))}
    WITH ORDINALITY AS drafts (status, rest, n)
)`;

/** Returns the statements for the tables in a schema. */
export function statementsIn(schema: string): Statements {
  const tableName = (name: string) => `${identifier(schema)}.petstore_${name}`;
  const pets = tableName('pets');
  const counters = tableName('counters');
  const records = tableName('records');
  const writers = tableName('writers');
  const idempotency = tableName('idempotency');
  const imports = tableName('imports');
  const leases = tableName('leases');
  const versions = tableName('schema');

  /** Returns the statement `insertBatch` of a table. */
  function insertInto(target: string, raiseCounter: string) {
    const wanted = plus(
      int8('$3'),
      countOf(`pg_catalog.unnest(${list('$7', 'text')}) AS keys (key)`),
    );
    const kept = plus(countOf('stored'), countOf('kept'));

    const keyTaken = raise('used.sent_at', ` ${keyTakenWords}`);
    const rehearsed = raise(kept, ` ${rehearsedWords}`);
    const numberTaken = raise(countOf('noted'), ` ${numberTakenWords}`);
    const rowMissing = raise(kept, ' rows kept of ', wanted, ', or no counter or writer');

    return `WITH taken AS (
  ${raiseCounter} RETURNING last_id, pg_catalog.clock_timestamp() AS taken_at
), noted AS (
  INSERT INTO ${writers} AS writer (id, batch, last_id)
  SELECT ${uuid('$1')}, ${int8('$2')}, last_id FROM taken
  UNION ALL SELECT ${uuid('$1')}, ${int8('$2')}, 0 WHERE ${equal(int8('$3'), '0')}
  ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, last_id = excluded.last_id
    WHERE ${op('writer.batch', '<', 'excluded.batch')}
  RETURNING last_id
), ${numberedBatch}, stored AS (
  INSERT INTO ${target} FROM batch RETURNING id
), kept AS (
  INSERT INTO ${idempotency} AS used (key, body, sent_at, pet_id)
  SELECT key, body, sent_at, ${plus(minus('last_id', int8('$3')), 'n')}
  FROM taken, ${unnest(
    list('$7', 'text'),
    list('$8', 'text'),
    list('$9', 'int8'),
    list('$10', 'int8'),
  )} AS uses (key, body, sent_at, n)
  ON CONFLICT (key) DO UPDATE SET body = excluded.body, sent_at = excluded.sent_at,
    pet_id = CASE
      WHEN ${op(minus('excluded.sent_at', 'used.sent_at'), '>=', `${keptMs}`)} THEN excluded.pet_id
      ELSE ${keyTaken}
    END
  RETURNING key
)
SELECT ${text(`CASE
  WHEN ${equal(kept, wanted)} AND EXISTS (SELECT 1 FROM noted)
    THEN CASE WHEN ${equal(int8('$2'), '0')} THEN ${rehearsed}
      ELSE (SELECT last_id FROM noted) END
  WHEN EXISTS (
    SELECT 1 FROM ${writers}
    WHERE ${equal('id', uuid('$1'))} AND ${op('batch', '>=', int8('$2'))}
  ) THEN ${numberTaken}
  ELSE ${rowMissing}
END`)} AS last_id,
  ${epochMs('pg_catalog.statement_timestamp()')} AS received_at,
  (SELECT ${epochMs('taken_at')} FROM taken) AS taken_at,
  ${epochMs('pg_catalog.clock_timestamp()')} AS ended_at`;
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
      const matches = `${rows}${filter} ${op('id', '>', int8('$1'))} ORDER BY id LIMIT ${limit}`;
      return { sql: select(matches), values };
    }

    const bytes = 'pg_catalog.length(json)';
    const bytesSoFar = `pg_catalog.sum(${plus(bytes, '1')})
    OVER (ORDER BY id ROWS UNBOUNDED PRECEDING)`;
    const position = 'pg_catalog.row_number() OVER (ORDER BY id)';
    const adoptedCount = countOf(`pg_catalog.unnest(${list('$3', 'int8')}) AS ids (id)`);

    return {
      counter,

      selectCounter: `SELECT ${text('last_id')} AS last_id
FROM ${counters} WHERE ${equal('name', text('$1'))}`,

      insertBatch: insertInto(target, raiseCounter),

      adoptBatch: `WITH taken AS (
  INSERT INTO ${counters} AS counter (name, last_id) VALUES ('${counter}', ${int8('$2')})
  ON CONFLICT (name) DO UPDATE SET last_id = excluded.last_id
    WHERE ${equal('counter.last_id', int8('$1'))}
  RETURNING last_id
), stored AS (
  INSERT INTO ${target}
  FROM taken, ${unnest(list('$3', 'int8'), list('$4', 'text'), list('$5', 'bytea'))}
    AS adopted (id, status, json)
  RETURNING id
)
SELECT ${text(`CASE
  WHEN ${equal(countOf('stored'), adoptedCount)} THEN last_id
  ELSE ${raise(countOf('stored'), ' rows kept of ', adoptedCount)}
END`)} AS last_id FROM taken`,

      selectOne: `SELECT ${digits}, json FROM ${rows} ${equal('id', int8('$1'))}`,

      selectMany: `SELECT ${digits},
  CASE WHEN ${op(bytes, '<=', `${maxResultBytes / maxIds}`)} THEN json END AS json
FROM ${rows} ${equal('id', `ANY (${list('$1', 'int8')})`)}`,

      selectPage: (query) =>
        selectFrom(
          query,
          (matches) => `SELECT
  pg_catalog.string_agg(line, pg_catalog.decode('0a', 'hex') ORDER BY id) AS page
FROM (
  SELECT id,
    CASE WHEN ${op(bytes, '<=', `${Math.floor(maxResultBytes / query.limit)}`)} THEN json
    ELSE pg_catalog.decode('', 'hex') END AS line
  FROM ${matches}
) AS lines`,
        ),

      selectLongTexts: (query, maxBytes, firstBytes) =>
        selectFrom(
          query,
          (matches) => `SELECT ${digits}, CASE
  WHEN ${op(bytesSoFar, '<=', `${maxBytes}`)} THEN json
  WHEN ${equal(position, '1')} AND ${op(bytes, '<', `${firstBytes}`)} THEN json
END AS json
FROM ${matches}`,
        ),
    };
  }

  const petTable = tableOf(
    'pets',
    `UPDATE ${counters} SET last_id = ${plus('last_id', int8('$3'))}
  WHERE ${equal('name', text('$4'))} AND ${op(int8('$3'), '>', '0')}`,
    `${pets} (id, status, json) SELECT id, ${nullIfEmpty('status')}, json`,
    `${pets} WHERE`,
    conditionsOf,
  );

  const recordTable = (name: string) => {
    const kind = `records.${name}`;

    return tableOf(
      kind,
      // The first record of a kind makes its counter.
      `INSERT INTO ${counters} AS counter (name, last_id)
  SELECT ${text('$4')}, ${int8('$3')} WHERE ${op(int8('$3'), '>', '0')}
  ON CONFLICT (name) DO UPDATE SET last_id = ${plus('counter.last_id', 'excluded.last_id')}`,
      `${records} (kind, id, json) SELECT '${kind}', id, json`,
      `${records} WHERE ${equal('kind', `'${kind}'`)} AND`,
      () => '',
    );
  };

  const importRowMissing = raise(countOf('stored'), ' rows kept of an import, or no counter');
  const nameCount = `pg_catalog.array_length(${list('$7', 'text')}, 1)`;
  const sweepTime = `LEAST(${int8('$2')}, ${databaseTime})`;
  const newPlace = plus(int8('$2'), int8('$3'));

  return {
    migrations: [
      `CREATE TABLE IF NOT EXISTS ${versions} (
  name pg_catalog.text PRIMARY KEY, version pg_catalog.int8 NOT NULL
)`,

      // JSON is stored as bytes, which no setting converts.
      `CREATE TABLE IF NOT EXISTS ${pets} (
  id pg_catalog.int8 PRIMARY KEY, status pg_catalog.text, json pg_catalog.bytea NOT NULL
)`,

      `CREATE TABLE IF NOT EXISTS ${counters} (
  name pg_catalog.text PRIMARY KEY, last_id pg_catalog.int8 NOT NULL
)`,
      `INSERT INTO ${counters} (name, last_id) VALUES ('pets', 0) ON CONFLICT (name) DO NOTHING`,

      `CREATE TABLE IF NOT EXISTS ${records} (
  kind pg_catalog.text, id pg_catalog.int8, json pg_catalog.bytea NOT NULL, PRIMARY KEY (kind, id)
)`,

      // A writer's row has the number and the last id of its last batch.
      `CREATE TABLE IF NOT EXISTS ${writers} (
  id pg_catalog.uuid PRIMARY KEY, batch pg_catalog.int8 NOT NULL, last_id pg_catalog.int8 NOT NULL
)`,

      // Keys and bodies are digests.
      `CREATE TABLE IF NOT EXISTS ${idempotency} (
  key pg_catalog.text PRIMARY KEY, body pg_catalog.text NOT NULL,
  sent_at pg_catalog.int8 NOT NULL, pet_id pg_catalog.int8 NOT NULL
)`,

      // The place is the number of pets of a source that are stored. A digest names the source.
      `CREATE TABLE IF NOT EXISTS ${imports} (
  source pg_catalog.text PRIMARY KEY, place pg_catalog.int8 NOT NULL
)`,

      // A lease lets one server at a time do a chore, until the time `expires_at`.
      `CREATE TABLE IF NOT EXISTS ${leases} (
  name pg_catalog.text PRIMARY KEY, holder pg_catalog.uuid NOT NULL,
  expires_at pg_catalog.int8 NOT NULL
)`,
      `CREATE INDEX IF NOT EXISTS petstore_idempotency_sent_at ON ${idempotency} (sent_at ASC)`,

      ...filterMigrations(pets),

      // Compression takes nine tenths of the time of adding texts of 60 kB.
      ...[pets, records].map(
        (table) => `ALTER TABLE ${table} ALTER COLUMN json SET STORAGE EXTERNAL`,
      ),
    ],

    setVersion: `INSERT INTO ${versions} AS present (name, version)
VALUES ('tables', ${int8('$1')}), ('petstore', ${int8('$2')})
ON CONFLICT (name) DO UPDATE SET version = GREATEST(present.version, excluded.version)`,

    // Tables of the release 1.0.0 have only the row `petstore`.
    selectVersion: `SELECT ${text('pg_catalog.max(version)')} AS version,
  ${text(`pg_catalog.max(CASE WHEN ${equal('name', "'petstore'")} THEN version END)`)} AS compatible
FROM ${versions} WHERE ${equal('name', "'petstore'")} OR ${equal('name', "'tables'")}`,

    petTable,
    recordTable,

    selectRecordNames: `SELECT pg_catalog.substr(name, 9) AS name FROM ${counters}
WHERE ${equal('pg_catalog.substr(name, 1, 8)', "'records.'")} AND ${op('last_id', '>', '0')}
ORDER BY name`,

    settle: `INSERT INTO ${writers} AS writer (id, batch, last_id)
VALUES (${uuid('$1')}, ${int8('$2')}, -1)
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, last_id = CASE
    WHEN ${equal('writer.batch', 'excluded.batch')} THEN writer.last_id
    ELSE -1
  END
  WHERE ${op('writer.batch', '<=', 'excluded.batch')}
RETURNING ${text('last_id')} AS last_id`,

    selectKeys: `SELECT used.key, used.body,
  ${text('used.sent_at')} AS sent_at, ${text('used.pet_id')} AS pet_id, pet.json
FROM ${unnest(list('$1', 'text'), list('$2', 'text'))} AS sought (key, body)
CROSS JOIN LATERAL (
  SELECT * FROM ${idempotency} AS use WHERE ${equal('use.key', 'sought.key')} LIMIT 1
) AS used
LEFT JOIN LATERAL (
  SELECT json FROM ${pets}
  WHERE ${equal('id', 'used.pet_id')} AND ${equal('used.body', 'sought.body')} LIMIT 1
) AS pet ON true`,

    deleteExpiredKeys: `WITH leased AS (
  INSERT INTO ${leases} AS lease (name, holder, expires_at)
  VALUES ('idempotency', ${uuid('$1')}, ${plus(databaseTime, `${leaseMs}`)})
  ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE ${equal('lease.holder', 'excluded.holder')}
      OR ${op('lease.expires_at', '<', databaseTime)}
  RETURNING name
), expired AS (
  SELECT used.key FROM ${idempotency} AS used
  WHERE ${op('used.sent_at', '<', minus(sweepTime, `${keptMs + marginMs}`))}
    AND ${op('used.sent_at', '>=', int8('$3'))} AND EXISTS (SELECT 1 FROM leased)
  ORDER BY used.sent_at LIMIT ${int8('$4')} FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM ${idempotency} AS used USING expired WHERE ${equal('used.key', 'expired.key')}
  RETURNING used.sent_at
)
SELECT ${text('pg_catalog.count(*)')} AS deleted,
  ${text('COALESCE(pg_catalog.max(sent_at), 0)')} AS sent_at
FROM deleted`,

    selectImports: `SELECT source, ${text('place')} AS place FROM ${imports}
WHERE ${op('place', '>', '0')}`,

    selectPlace: `INSERT INTO ${imports} AS present (source, place)
VALUES (${text('$1')}, ${int8('$2')})
ON CONFLICT (source) DO UPDATE SET place = GREATEST(present.place, excluded.place)
RETURNING ${text('place')} AS place`,

    importBatch: `WITH noted AS (
  INSERT INTO ${imports} AS present (source, place)
  SELECT name, ${newPlace} FROM pg_catalog.unnest(${list('$7', 'text')}) AS names (name)
  WHERE EXISTS (
    SELECT 1 FROM ${imports}
    WHERE ${equal('source', text('$1'))} AND ${equal('place', int8('$2'))}
  )
  ON CONFLICT (source) DO UPDATE SET place = excluded.place
    WHERE ${equal('present.place', int8('$2'))}
  RETURNING source, place
), placed AS (
  SELECT place, ${equal(countOf('noted'), nameCount)} AS is_new
  FROM noted WHERE ${equal('source', text('$1'))}
), taken AS (
  UPDATE ${counters} SET last_id = ${plus('last_id', int8('$3'))}
  WHERE ${equal('name', text('$4'))} AND EXISTS (SELECT 1 FROM placed WHERE is_new)
  RETURNING last_id
), ${numberedBatch}, stored AS (
  INSERT INTO ${pets} (id, status, json)
  SELECT id, ${nullIfEmpty('status')}, json FROM batch
  RETURNING id
)
SELECT ${text(`CASE
  WHEN ${equal(countOf('stored'), `CASE WHEN is_new THEN ${int8('$3')} ELSE 0 END`)} THEN place
  ELSE ${importRowMissing}
END`)} AS place
FROM placed`,
  };
}
