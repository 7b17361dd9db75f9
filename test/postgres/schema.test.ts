// The tables: made once, again and by many at once; what a server without them says; what it may be allowed at least.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { atEnd } from '../at-end.js';
import { isMigrated, migratePostgres, postgresStorage } from '../../dist/postgres.js';
import { assertRefused, folder, root, run, Running, start, until } from '../standalone/process.js';
import { adminUrl, newDatabase, newSchema, query, withoutDatabase } from './database.js';

const keyed = { PETSTORE_API_KEYS: 'k' };

/** Everything that describes the tables of a schema. */
async function tablesOf(url: string): Promise<unknown> {
  const columns = await query(url, 'SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2');
  const indexes = await query(url, "SELECT replace(indexdef, current_schema(), '') AS definition FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1");
  return { columns, indexes, version: await query(url, 'SELECT * FROM petstore_schema') };
}

describe('petstore migrate', { skip: withoutDatabase() }, () => {
  test('makes the tables, a second time changes nothing, and then a server starts', async (t) => {
    const cwd = folder(t);
    const url = await newSchema();
    const env = { PETSTORE_STORAGE: url };
    assertRefused(await run([], { cwd, env: { ...env, ...keyed } }), 2, /^PETSTORE_STORAGE postgres:.* has no tables of this petstore; .*petstore migrate/);
    assertRefused(await run(['import', join(root, 'data/animals.jsonl'), '--storage', url], { cwd }), 2, /^--storage .*petstore migrate/);
    assert.equal(await isMigrated(url), false);
    const first = await run(['migrate'], { cwd, env });
    assert.match(first.stdout, /^postgres:\S+ has the tables of the petstore: version \d+, before 0\n$/);
    assert.equal(first.code, 0);
    const made = await tablesOf(url);
    const second = await run(['migrate', '--storage', url], { cwd });
    assert.match(second.stdout, /^postgres:\S+ is up to date: version \d+\n$/);
    assert.deepEqual(await tablesOf(url), made);
    assert.equal((await run(['import', join(root, 'data/animals.jsonl')], { cwd, env })).code, 0);
    const server = await start(t, [], { cwd, env });
    assert.equal(await (await server.get('/v1/pets/301')).text(), readFileSync(join(root, 'data/animals.jsonl'), 'utf8').trimEnd().split('\n')[300]?.replace('{', '{"id":301,'));
    assert.equal((await server.add('Rex')).headers.get('location'), '/v1/pets/302');
    assert.equal((await server.end()).code, 0);
  });

  test('eight at once make the same tables', async () => {
    const url = await newSchema();
    const one = await newDatabase();
    await Promise.all(Array.from({ length: 8 }, () => migratePostgres(url)));
    assert.deepEqual(await tablesOf(url), await tablesOf(one));
  });

  test('every step may be taken again, and animals stay; an older version is refused, a newer one is not', async (t) => {
    const url = await newDatabase();
    const made = await tablesOf(url);
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    await storage.insert({ name: 'Rex', categoryId: 1n });
    await query(url, 'UPDATE petstore_schema SET version = 1');
    await assert.rejects(postgresStorage(url), { code: 'storage_unusable', message: /of version 1, where \d+ is needed.*petstore migrate/ });
    assert.equal((await migratePostgres(url)).from, 1);
    assert.deepEqual(await tablesOf(url), made);
    assert.equal((await storage.insert({ name: 'Tom', categoryId: 1n })).id, 2n);
    await query(url, 'UPDATE petstore_schema SET version = 1000');
    assert.deepEqual(await migratePostgres(url), { from: 1000, to: 1000 });
    await (await postgresStorage(url)).close();
  });

  test('--dev makes them by itself', async (t) => {
    const server = await start(t, ['--dev', '--storage', await newSchema()], { cwd: folder(t) });
    assert.equal((await server.add('Rex')).status, 201);
  });

  test('a server needs no more than SELECT, INSERT and UPDATE', async (t) => {
    const url = await newDatabase();
    const [row] = await query(url, 'SELECT current_schema() AS schema');
    const [role, password] = [`petstore_test_${randomBytes(6).toString('hex')}`, randomBytes(12).toString('hex')];
    await query(url, `CREATE ROLE ${role} LOGIN PASSWORD '${password}'`);
    atEnd(t, async () => {
      await query(url, `DROP OWNED BY ${role}`);
      await query(url, `DROP ROLE ${role}`);
    });
    await query(url, `GRANT USAGE ON SCHEMA ${String(row?.['schema'])} TO ${role}`);
    const restricted = Object.assign(new URL(url), { username: role, password }).href;
    assertRefused(await run(['--storage', restricted], { cwd: folder(t), env: keyed }), 3, /SELECT, INSERT and UPDATE.*permission denied/);
    await query(url, `GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ${String(row?.['schema'])} TO ${role}`);
    const server = await start(t, ['--dev', '--storage', restricted], { cwd: folder(t) });
    assert.equal((await server.add('Rex')).status, 201);
    assert.equal((await server.get('/v1/pets/1')).status, 200);
    assert.equal((await server.get('/v1/pets?status=sold')).status, 200);
    assert.equal((await server.get('/readyz')).status, 200);
    assert.ok(!`${server.stdout}${server.stderr}`.includes(password), 'the password is in no line');
    assert.ok(String((await server.said('listening'))['storage']).includes(`//${role}@`));
    for (const statement of ['DELETE FROM petstore_pets', 'CREATE TABLE more (id int8)']) await assert.rejects(query(restricted, statement), { code: '42501' });
  });

  test('a storage without tables is refused with exit 2', async (t) => {
    assertRefused(await run(['migrate'], { cwd: folder(t) }), 2, /^--storage file:data\/pets\.jsonl needs no migration; name a database/);
    assertRefused(await run(['migrate', 'x'], { cwd: folder(t) }), 2, /takes no operand/);
  });

  test('a database that cannot be used is refused with exit 3 and one line', async (t) => {
    const cwd = folder(t);
    const nobody = Object.assign(new URL(await adminUrl()), { pathname: '/petstore_nowhere' }).href;
    for (const args of [[], ['migrate']]) {
      assertRefused(await run([...args, '--storage', 'postgres://127.0.0.1:1/x'], { cwd, env: keyed }), 3, /^the database cannot be used: start it.*ECONNREFUSED 127\.0\.0\.1:1\)/);
      assertRefused(await run([...args, '--storage', nobody], { cwd, env: keyed }), 3, /^the database cannot be used: there is no such database/);
    }
    await assert.rejects(postgresStorage('postgres://127.0.0.1:1/x'), { name: 'PetstoreError', code: 'storage_unusable' });
    await assert.rejects(postgresStorage('mysql://ann:secret@x'), (error) => error instanceof TypeError && !error.message.includes('secret'));
    await assert.rejects(postgresStorage(nobody, { maxConnections: 0 }), TypeError);
    await assert.rejects(Reflect.apply(postgresStorage, undefined, [nobody, { max: 3 }]), { name: 'TypeError', message: /option of postgresStorage max is unknown/ });
  });

  test('without the package pg, one line says how to get it', async (t) => {
    const cwd = folder(t);
    cpSync(join(root, 'dist'), join(cwd, 'dist'), { recursive: true });
    cpSync(join(root, 'package.json'), join(cwd, 'package.json'));
    const args = [join(cwd, 'dist/server.js'), '--storage', 'postgres://127.0.0.1:1/x'];
    assertRefused(await new Running(process.execPath, args, { cwd, env: keyed }).ended, 3, /npm install pg/);
    // Whoever needs none doesn't miss it.
    const memory = new Running(process.execPath, [join(cwd, 'dist/server.js'), '--storage', 'memory:', '--port', '0'], { cwd, env: keyed });
    atEnd(t, () => memory.end('SIGKILL'));
    await until('its first line', () => memory.stdout !== '');
    assert.equal((await memory.end()).code, 0);
  });
});
