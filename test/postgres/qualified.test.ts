// Names in SQL statements: each has its schema, so that other roles cannot replace what it names.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { petStatuses, type PetStorage } from '../../dist/index.js';
import {
  migratePostgres,
  postgresImport,
  postgresRecordNames,
  postgresTarget,
  seedPostgres,
} from '../../dist/postgres/index.js';
import { notesIn } from '../storage/records.js';
import { until } from '../support/waiting.js';
import { WorkingFolder } from '../support/working-folder.js';
import { adminUrl, newSchemaAt, ownUrl, query, withoutServer } from './database.js';
import { addOnce, intercept, linesOf, namesIn, open, poolOf, rex, tom } from './scene.js';

/** Calls everything of a storage that sends statements. */
async function useAll(storage: PetStorage): Promise<void> {
  await Promise.all([storage.insert(rex), addOnce(storage, 'a', tom)]);
  await addOnce(storage, 'a', tom);
  await Promise.all([storage.get(1n), storage.get(2n), storage.ready?.()]);
  await storage.get(1n);
  for (const status of [undefined, ...petStatuses])
    await storage.list({ limit: 20, ...(status !== undefined && { status }) });
  // Longer than its share of a page, and of a result.
  await storage.insert({ ...rex, name: 'x'.repeat(100_000) });
  await storage.list({ limit: 20 });
  const notes = notesIn(storage);
  await notes.insert('note');
  assert.equal((await notes.list({ limit: 9 })).texts.length, 1);
}

/** Collects the text of every statement of a pool. */
async function collecting(t: TestContext, url: string) {
  const pool = await poolOf(t, { url });
  const texts = new Set<string>();
  intercept(pool, (statement, send) => {
    texts.add(statement.text);
    return send();
  });
  return { pool, texts };
}

/** The words of SQL that need no schema. */
const keywords = new Set(
  `ADD ALL AND ANY AS ASC BY CASE CAST COALESCE CONFLICT CREATE CROSS CURRENT_USER DELETE DESC
   DISTINCT DO ELSE END EXISTS FOR FROM GREATEST IF IN INDEX INSERT INTO IS JOIN KEY LATERAL LEAST
   LEFT LIMIT LOCKED NOT NOTHING NULL OFFSET ON OPERATOR OR ORDER ORDINALITY OVER PRECEDING PRIMARY
   RETURNING ROWS SELECT SET SKIP TABLE THEN UNBOUNDED UPDATE USING VALUES WHEN WHERE WITH excluded
   false true`.split(/\s+/),
);

/** Returns the names and operators of a statement that are looked up along `search_path`. */
function unqualifiedIn(text: string): readonly string[] {
  const sql = text.replace(/'(?:[^']|'')*'/g, "''").replace(/\s+/g, ' ');
  const found: string[] = [];

  // Operators, without = of SET lists, * of count(*), and numbers with a sign.
  const plain = sql.replace(/OPERATOR\(pg_catalog\.[^\w\s()]+\)/g, ' ');
  for (const [operator] of plain.matchAll(/::|[-+*/<>=~!@#%^&|?]+/g))
    if (operator !== '=' && operator !== '*' && operator !== '-') found.push(operator);
  for (const [, before = ''] of plain.matchAll(/(\S+ = )/g)) found.push(before);

  // Functions and types: a word before a parenthesis, or after AS in a CAST, or in a column list.
  const words = plain.matchAll(/(?<![\w."$])([a-z_]\w*)\s*\(/gi);
  for (const [, word = ''] of words) {
    const isList = new RegExp(`(?:AS|INTO [\\w."]+ AS) ${word} \\(`).test(plain);
    if (!keywords.has(word) && !isList) found.push(`${word}(`);
  }
  for (const [, type = ''] of plain.matchAll(/ AS ([a-z]\w*)\)/g)) found.push(`AS ${type}`);

  // Relations, unless a WITH query or a FROM item of this statement has the name.
  const own = new Set(Array.from(plain.matchAll(/(?:WITH|,|\)) (\w+) AS \(/g), ([, name]) => name));
  for (const [, name = ''] of plain.matchAll(
    /(?:FROM|JOIN|INTO|UPDATE|TABLE|ON) ([a-z_]\w*)(?![\w.])/g,
  ))
    if (!own.has(name) && !keywords.has(name) && !keywords.has(name.toUpperCase()))
      found.push(name);

  return found.filter((each) => !/^(?:SET )?\w+ = $/.test(each));
}

/** The names of functions, operators and types that occur in statements, or could. */
const functions = [
  'acldefault aclexplode array_length convert_to current_schemas current_setting date_part decode',
  'encode length pg_get_userbyid set_config substr substring unnest',
].join(' ');
const operators = '= <> < <= > >= + - * || ~~ ~';
const types = 'text int8 int4 bytea uuid name oid';

/**
 * Returns the statements that define functions, operators, an aggregate and types of these names in
 * a schema. Each definition fails when it is called, and counts the call in the sequence `calls`.
 */
const hostileDefinitions = (schema: string) => `
CREATE SEQUENCE ${schema}.calls;
GRANT USAGE ON SCHEMA ${schema} TO PUBLIC;
GRANT ALL ON SEQUENCE ${schema}.calls TO PUBLIC;
DO $do$
DECLARE
  body CONSTANT text := $$ BEGIN
    PERFORM pg_catalog.nextval('${schema}.calls'); RAISE 'a hostile name was called';
  END $$;
  each record;
  n int := 0;
BEGIN
  FOR each IN SELECT proname, args, result FROM pg_proc, LATERAL (
    SELECT string_agg(replace(replace(format_type(type, NULL), 'anyarray', actual || '[]'), 'anynonarray', actual), ', ' ORDER BY position) AS args,
      replace(replace(format_type(prorettype, NULL), 'anyelement', actual), 'record', 'text') AS result
    FROM unnest(ARRAY['text', 'int8', 'bytea', 'name']) AS actuals (actual),
      unnest(proargtypes::oid[]) WITH ORDINALITY AS types (type, position) GROUP BY actual
  ) AS signature WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'
    AND proname = ANY(string_to_array('${functions}', ' '))
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION ${schema}.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
        each.proname, each.args, each.result, body);
    EXCEPTION WHEN others THEN n := n;
    END;
  END LOOP;
  EXECUTE format('CREATE FUNCTION ${schema}.now() RETURNS timestamptz LANGUAGE plpgsql AS %L', body);
  EXECUTE format('CREATE FUNCTION ${schema}.counted(int8) RETURNS int8 LANGUAGE plpgsql AS %L', body);
  CREATE AGGREGATE ${schema}.count(*) (SFUNC = ${schema}.counted, STYPE = int8, INITCOND = '0');

  FOR each IN SELECT oprname, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r,
      format_type(oprresult, NULL) AS result
    FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprleft <> 0
      AND oprname = ANY(string_to_array('${operators}', ' '))
  LOOP
    n := n + 1;
    BEGIN
      EXECUTE format('CREATE FUNCTION ${schema}.op%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L',
        n, each.l, each.r, each.result, body);
      EXECUTE format('CREATE OPERATOR ${schema}.%s (FUNCTION = ${schema}.op%s, LEFTARG = %s, RIGHTARG = %s)',
        each.oprname, n, each.l, each.r);
    EXCEPTION WHEN others THEN n := n;
    END;
  END LOOP;
END $do$;
${types
  .split(' ')
  .map((type) => `CREATE DOMAIN ${schema}.${type} AS pg_catalog.text CHECK (false);`)
  .join('\n')}`;

/** Returns how many hostile definitions were called. */
const callsOf = (url: string, schemas: readonly string[]) =>
  linesOf(
    url,
    `SELECT sum(calls) FROM (${schemas
      .map((schema) => `SELECT is_called::int AS calls FROM ${schema}.calls`)
      .join(' UNION ALL ')}) AS each`,
  );

describe('names in SQL statements', { skip: withoutServer() }, () => {
  test('every function, operator, type and table has its schema', async (t) => {
    const { pool, texts } = await collecting(t, await newSchemaAt(await adminUrl()));
    await migratePostgres(pool);
    await useAll(await open(t, pool));
    await until('a sweep', () => [...texts].some((text) => text.includes('DELETE FROM')));
    assert.ok(texts.size > 25, `${texts.size} statements`);

    for (const text of texts) assert.deepEqual(unqualifiedIn(text), [], text);
    assert.deepEqual(
      unqualifiedIn("SELECT count(*), a || b, c::int8 FROM pets WHERE x <> lower(y) AND z > 'a'"),
      ['||', '::', '<>', '>', 'count(', 'lower(', 'pets'],
    );
  });

  test('no hostile function, operator or type of another schema is called', async (t) => {
    const admin = await ownUrl();
    const { host } = new URL(admin);
    await query(admin, 'CREATE ROLE hostage LOGIN');
    const url = `postgres://hostage@${host}/hostile`;
    await query(admin, 'CREATE DATABASE hostile OWNER hostage');
    const own = new URL('/hostile', admin).href;
    await query(own, 'GRANT CREATE ON SCHEMA public TO PUBLIC');
    const here = new WorkingFolder(t);
    const { code, stderr } = await here.command(`migrate --storage ${url}`);
    assert.equal(code, 0, stderr);
    assert.match(
      stderr,
      /^warning: other .* public: PUBLIC; REVOKE CREATE ON SCHEMA public FROM PUBLIC\n$/,
    );

    const schemas = ['hostage', 'public'];
    await query(own, 'CREATE SCHEMA hostage');
    for (const schema of schemas) await query(own, hostileDefinitions(schema));
    const paths = ['"$user", public', 'hostage, public, pg_catalog'];
    for (const path of paths) {
      await query(own, `ALTER ROLE hostage SET search_path = ${path}`);
      for (const database of [url, await poolOf(t, { url })]) {
        await query(own, 'TRUNCATE public.petstore_pets, public.petstore_counters');
        await query(own, 'TRUNCATE public.petstore_records, public.petstore_idempotency');
        await query(own, "INSERT INTO public.petstore_counters VALUES ('pets', 0)");
        const storage = await open(t, database);
        await useAll(storage);
        await migratePostgres(database);
        await storage.close();
        assert.deepEqual((await namesIn(own)).slice(0, 2), ['Rex', 'Tom']);
      }
      assert.deepEqual(await postgresRecordNames(url), ['notes']);
      const target = await postgresTarget(url);
      await target.close();
      const importing = await postgresImport(url, 'ab'.repeat(32), () => undefined);
      await importing.add([rex]);
      await importing.close();
      assert.equal(await seedPostgres(url, [rex], () => undefined), false);
    }
    assert.equal(await callsOf(own, schemas), '0');

    // The definitions are effective for statements without schemas.
    const defined = await linesOf(
      own,
      `SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'hostage'::regnamespace
       AND proname = ANY('{${functions.split(' ').join(',')}}')`,
    );
    assert.deepEqual(defined.split('\n').sort(), functions.split(' ').sort());
    for (const statement of ['SELECT 1 + 1', 'SELECT count(*) FROM pg_class', 'SELECT now()'])
      await assert.rejects(query(url, statement), /hostile name/, statement);
    await assert.rejects(query(url, "SELECT 'a'::text"), /text/);
    assert.equal(await callsOf(own, ['hostage']), '1');
  });
});
