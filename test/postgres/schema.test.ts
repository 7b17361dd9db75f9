// The tables: made once, again and by many at once; what a server without them says; what it may be
// allowed at least.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { atEnd } from '../support/at-end.js';
import { migratePostgres, postgresStorage } from '../../dist/postgres/index.js';
import { command } from '../support/command.js';
import {
  assertRefused,
  folder,
  root,
  runServer,
  StartedProcess,
  serverFile,
  startServer,
} from '../support/process.js';
import { adminUrl, newDatabase, newSchema, query, withoutDatabase } from './database.js';
import { TcpProxy } from './proxy.js';
import { until } from '../support/waiting.js';

const keyed = { PETSTORE_API_KEYS: 'k' };

/** Everything that describes the tables of a schema. */
async function tablesOf(url: string): Promise<unknown> {
  const columns = await query(
    url,
    'SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2',
  );
  const indexes = await query(
    url,
    "SELECT replace(indexdef, current_schema(), '') AS definition FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1",
  );
  return { columns, indexes, version: await query(url, 'SELECT * FROM petstore_schema') };
}

/**
 * The URL of a new role of a database, which may log in and nothing else until it is granted more.
 */
async function newRole(
  t: TestContext,
  url: string,
): Promise<{ readonly role: string; readonly password: string; readonly url: string }> {
  const [role, password] = [
    `petstore_test_${randomBytes(6).toString('hex')}`,
    randomBytes(12).toString('hex'),
  ];
  await query(url, `CREATE ROLE ${role} LOGIN NOSUPERUSER PASSWORD '${password}'`);
  atEnd(t, async () => {
    await query(url, `DROP OWNED BY ${role} CASCADE`);
    await query(url, `DROP ROLE ${role}`);
  });
  return { role, password, url: Object.assign(new URL(url), { username: role, password }).href };
}

/** What a connection to a URL sees as its schema. */
async function schemaOf(url: string): Promise<string> {
  const [row] = await query(url, 'SELECT current_schema() AS schema');
  return String(row?.['schema']);
}

describe('petstore migrate', { skip: withoutDatabase() }, () => {
  test('makes the tables, a second time changes nothing, and then a server starts', async (t) => {
    const cwd = folder(t);
    const url = await newSchema();
    const env = { PETSTORE_STORAGE: url };
    assertRefused(
      await runServer([], { cwd, env: { ...env, ...keyed } }),
      2,
      /^PETSTORE_STORAGE postgres:.* has no tables of this petstore; .*`node dist\/server\.js migrate --storage URL`/,
    );
    assertRefused(
      await runServer(['import', join(root, 'data/animals.jsonl'), '--storage', url], { cwd }),
      2,
      /^--storage .*`node dist\/server\.js migrate /,
    );
    const first = await runServer(['migrate'], { cwd, env });
    assert.match(
      first.stdout,
      /^postgres:\S+ has the tables of the petstore: version \d+, before 0\n$/,
    );
    assert.equal(first.code, 0);
    const made = await tablesOf(url);
    const second = await runServer(['migrate', '--storage', url], { cwd });
    assert.match(second.stdout, /^postgres:\S+ is up to date: version \d+\n$/);
    assert.deepEqual(await tablesOf(url), made);
    assert.equal(
      (await runServer(['import', join(root, 'data/animals.jsonl')], { cwd, env })).code,
      0,
    );
    // The second alone is as much as may wait.
    const ofBytes = (bytes: number) => `{"name":"${'x'.repeat(bytes - 26)}","categoryId":1}`;
    writeFileSync(join(cwd, 'long'), `${ofBytes(30)}\n${ofBytes(2 ** 22)}\n${ofBytes(30)}\n`);
    const other = await newDatabase();
    const imported = await runServer(['import', 'long', '--storage', other], { cwd });
    assert.equal(imported.code, 0, imported.stderr);
    assert.match(imported.stdout, /^3 animals added to /);
    const server = await startServer(t, [], { cwd, env });
    assert.equal(
      await (await server.get('/v1/pets/301')).text(),
      readFileSync(join(root, 'data/animals.jsonl'), 'utf8')
        .trimEnd()
        .split('\n')[300]
        ?.replace('{', '{"id":301,'),
    );
    assert.equal((await server.add('Rex')).headers.get('location'), '/v1/pets/302');
    assert.equal((await server.end()).code, 0);
  });

  test('two at once both end well, and eight more', async (t) => {
    const [url, one] = [await newSchema(), await newDatabase()];
    const cwd = folder(t);
    const both = await Promise.all(
      [0, 1].map(() => runServer(['migrate', '--storage', url], { cwd })),
    );
    for (const { code, stderr } of both)
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    assert.deepEqual(await tablesOf(url), await tablesOf(one));
    const other = await newSchema();
    await Promise.all(Array.from({ length: 8 }, () => migratePostgres(other)));
    assert.deepEqual(await tablesOf(other), await tablesOf(one));
  });

  test('every step may be taken again, and animals stay; an older version is refused', async (t) => {
    const url = await newDatabase();
    const made = await tablesOf(url);
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    await storage.insert({ name: 'Rex', categoryId: 1n });
    await query(url, 'UPDATE petstore_schema SET version = 1');
    await assert.rejects(postgresStorage(url), {
      code: 'storage_unusable',
      message: /of version 1, where \d+ is needed.*petstore migrate/,
    });
    assert.equal((await migratePostgres(url)).from, 1);
    assert.deepEqual(await tablesOf(url), made);
    assert.equal((await storage.insert({ name: 'Tom', categoryId: 1n })).id, 2n);
  });

  test('tables of a later program are refused in one line and left alone; a server at work goes on', async (t) => {
    const url = await newDatabase();
    const cwd = folder(t);
    const before = await startServer(t, ['--storage', url], { cwd });
    await query(url, 'UPDATE petstore_schema SET version = 1000');
    const refusal =
      /^the database has a petstore of version 1000, and this one knows none above \d+; use the later program/;
    for (const args of [[], ['--dev'], ['migrate']]) {
      assertRefused(await command([...args, '--storage', url], { cwd, env: keyed }), 3, refusal);
    }
    assert.deepEqual(await query(url, 'SELECT version FROM petstore_schema'), [
      { version: '1000' },
    ]);
    assert.equal((await before.add('Rex')).status, 201);
  });

  test('--dev makes them by itself', async (t) => {
    const server = await startServer(t, ['--dev', '--storage', await newSchema()], {
      cwd: folder(t),
    });
    assert.equal((await server.add('Rex')).status, 201);
  });

  test('one role owns the tables; another, which serves, needs no more than SELECT, INSERT and UPDATE', async (t) => {
    const url = await newSchema();
    const schema = await schemaOf(url);
    const cwd = folder(t);
    const owner = await newRole(t, url);
    const serving = await newRole(t, url);
    // The statements of docs/postgres.md.
    await query(url, `GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${owner.role}`);
    await query(url, `GRANT USAGE ON SCHEMA ${schema} TO ${serving.role}`);
    assertRefused(
      await command(['--storage', serving.url], { cwd, env: keyed }),
      2,
      /has no tables of this petstore; .*`node dist\/server\.js migrate /,
    );
    assertRefused(
      await command(['--dev', '--storage', serving.url], { cwd }),
      3,
      /migrate as the owner of the database, or GRANT CREATE .*permission denied for schema/,
    );
    assertRefused(
      await command(['migrate', '--storage', serving.url], { cwd }),
      3,
      /migrate as the owner of the database, or GRANT CREATE .*permission denied for schema/,
    );
    assert.equal((await command(['migrate', '--storage', owner.url], { cwd })).code, 0);
    assertRefused(
      await command(['--storage', serving.url], { cwd, env: keyed }),
      3,
      /GRANT SELECT, INSERT, UPDATE ON ALL TABLES .*permission denied/,
    );
    // The right to read alone, then that to add without that to count.
    for (const rights of ['SELECT', 'INSERT']) {
      await query(
        owner.url,
        `GRANT ${rights} ON ALL TABLES IN SCHEMA ${schema} TO ${serving.role}`,
      );
      assertRefused(
        await command(['--storage', serving.url], { cwd, env: keyed }),
        3,
        /GRANT SELECT, INSERT, UPDATE ON ALL TABLES .*permission denied/,
      );
    }
    await query(
      owner.url,
      `GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ${schema} TO ${serving.role}`,
    );
    for (const args of [[], ['--dev'], ['--plugin', 'orders']]) {
      const server = await startServer(t, [...args, '--storage', serving.url], { cwd });
      const id = /"id":(\d+)/.exec(await (await server.add('Rex')).text())?.[1];
      assert.equal((await server.get(`/v1/pets/${id}`)).status, 200);
      assert.equal((await server.get('/v1/pets?status=sold')).status, 200);
      assert.equal((await server.get('/readyz')).status, 200);
      assert.ok(
        !`${server.stdout}${server.stderr}`.includes(serving.password),
        'the password is in no line',
      );
      assert.ok(String((await server.said('listening'))['storage']).includes(`//${serving.role}@`));
      assert.equal((await server.end()).code, 0);
    }
    assert.equal((await query(url, 'SELECT id FROM petstore_pets')).length, 3);
    for (const statement of [
      'DELETE FROM petstore_pets',
      'TRUNCATE petstore_pets',
      `CREATE TABLE ${schema}.more (id int8)`,
      'DROP TABLE petstore_pets',
    ]) {
      await assert.rejects(query(serving.url, statement), { code: '42501' }, statement);
    }
  });

  test('a storage without tables is refused with exit 2', async (t) => {
    assertRefused(
      await command(['migrate'], { cwd: folder(t) }),
      2,
      /^--storage file:data\/pets\.jsonl needs no migration; name a database/,
    );
    assertRefused(await command(['migrate', 'x'], { cwd: folder(t) }), 2, /takes no operand/);
  });

  test('a database that cannot be used is refused with exit 3 and one line', async (t) => {
    const cwd = folder(t);
    const nobody = Object.assign(new URL(await adminUrl()), { pathname: '/petstore_nowhere' }).href;
    assertRefused(
      await command(['migrate', '--storage', 'postgres://127.0.0.1:1/x'], { cwd, env: keyed }),
      3,
      /^the database cannot be used: start it.*ECONNREFUSED 127\.0\.0\.1:1\)/,
    );
    for (const args of [[], ['migrate']]) {
      assertRefused(
        await command([...args, '--storage', nobody], { cwd, env: keyed }),
        3,
        /^the database cannot be used: there is no such database/,
      );
    }
    await assert.rejects(postgresStorage('postgres://127.0.0.1:1/x'), {
      name: 'PetstoreError',
      code: 'storage_unusable',
    });
    await assert.rejects(
      postgresStorage('mysql://ann:secret@x'),
      (error) => error instanceof TypeError && !error.message.includes('secret'),
    );
    await assert.rejects(postgresStorage(nobody, { maxConnections: 0 }), TypeError);
    await assert.rejects(Reflect.apply(postgresStorage, undefined, [nobody, { max: 3 }]), {
      name: 'TypeError',
      message: /option of postgresStorage max is unknown/,
    });
  });

  test('migrating does not wait for a table that somebody holds, nor for a database that falls silent', async (t) => {
    const url = await newDatabase();
    const { hostname, port } = new URL(url);
    const proxy = await TcpProxy.start(Number(port || 5432), hostname);
    atEnd(t, () => proxy.close());
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    atEnd(t, () => holder.end());
    await holder.query('BEGIN');
    await holder.query('LOCK TABLE petstore_schema IN ACCESS EXCLUSIVE MODE');
    const since = performance.now();
    const cwd = folder(t);
    const commands = [url, proxy.urlFor(url)].map((storage) => ['migrate', '--storage', storage]);
    const starts = commands.map(
      (args) =>
        new StartedProcess(process.execPath, [serverFile, ...args], {
          cwd,
          env: { ...keyed, PORT: '0' },
        }),
    );
    atEnd(t, () => Promise.all(starts.map((one) => one.end('SIGKILL'))));
    // It has connected, and waits for the table.
    const asked =
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'petstore' AND query LIKE '%petstore_schema%'";
    await until('all of them wait', async () => (await query(url, asked)).length === starts.length);
    proxy.mode = 'silent';
    const ended = await Promise.race([
      Promise.all(starts.map(({ ended }) => ended)),
      sleep(20_000, undefined, { ref: false }),
    ]);
    assert.ok(ended !== undefined, 'all end');
    for (const one of ended)
      assertRefused(one, 3, /^the database cannot be used: .*no answer within/);
    assert.ok(performance.now() - since < 15_000);
  });

  test('migrating waits for a step, but neither for a database that is silent from its first word on, nor for the version', async (t) => {
    const url = await newDatabase();
    await query(url, 'UPDATE petstore_schema SET version = 1');
    const { hostname, port } = new URL(url);
    const proxy = await TcpProxy.start(Number(port || 5432), hostname);
    atEnd(t, () => proxy.close());
    const pool = new pg.Pool({ connectionString: proxy.urlFor(url) });
    atEnd(t, () => pool.end());
    pool.on('connect', () => (proxy.mode = 'silent'));
    const since = performance.now();
    await assert.rejects(migratePostgres(pool), {
      code: 'storage_unusable',
      message: /no answer within/,
    });
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    atEnd(t, () => holder.end());
    await holder.query('BEGIN');
    await holder.query('SELECT * FROM petstore_schema FOR UPDATE');
    await assert.rejects(migratePostgres(url), {
      code: 'storage_unusable',
      message: /no answer within/,
    });
    assert.ok(performance.now() - since < 15_000);
    await holder.query('ROLLBACK');
    await holder.query('BEGIN');
    await holder.query('LOCK TABLE petstore_pets IN ACCESS EXCLUSIVE MODE');
    const migration = migratePostgres(url);
    migration.catch(() => undefined);
    // Longer than any other statement may take.
    await sleep(4_000);
    await holder.query('ROLLBACK');
    assert.ok((await migration).to > 1);
  });

  test('without the package pg, one line says how to get it', async (t) => {
    const cwd = folder(t);
    cpSync(join(root, 'dist'), join(cwd, 'dist'), { recursive: true });
    cpSync(join(root, 'package.json'), join(cwd, 'package.json'));
    const args = [join(cwd, 'dist/server.js'), '--storage', 'postgres://127.0.0.1:1/x'];
    assertRefused(
      await new StartedProcess(process.execPath, args, { cwd, env: keyed }).ended,
      3,
      /npm install pg@8 /,
    );
    // Whoever needs none doesn't miss it.
    const memory = new StartedProcess(
      process.execPath,
      [join(cwd, 'dist/server.js'), '--storage', 'memory:', '--port', '0'],
      {
        cwd,
        env: keyed,
      },
    );
    atEnd(t, () => memory.end('SIGKILL'));
    await until('its first line', () => memory.stdout !== '');
    assert.equal((await memory.end()).code, 0);
  });
});
