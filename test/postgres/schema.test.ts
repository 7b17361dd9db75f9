// Tests the tables: creating and upgrading them, servers without tables, and the least privileges.
// Also runs the commands and statements of docs/postgres.md, with another host of the database.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { cpSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { migratePostgres, postgresStorage } from '../../dist/postgres/index.js';
import { StartedProcess, assertRefused, root } from '../support/process.js';
import { WorkingFolder } from '../support/working-folder.js';
import { majorVersion, serverVersion } from './cluster.js';
import {
  adminUrl,
  newDatabase,
  newSchema,
  ownUrl,
  query,
  tablesVersion,
  withoutDatabase,
  withoutServer,
} from './database.js';
import {
  linesOf,
  expectAdded,
  expectStored,
  hold,
  openNew,
  poolOf,
  proxied,
  untilRow,
  unusable,
} from './scene.js';

const keyed = { PETSTORE_API_KEYS: 'k' };

/** Returns the columns, indexes and version of a schema. */
async function tablesOf(url: string): Promise<readonly string[]> {
  const statements = [
    'SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2',
    "SELECT replace(indexdef, current_schema(), '') AS definition FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1",
    'SELECT * FROM petstore_schema',
  ];
  return Promise.all(statements.map((statement) => linesOf(url, statement)));
}

/** Creates a role that may log in and has no other privilege. */
async function newRole(t: TestContext, url: string) {
  const name = randomBytes(6).toString('hex');
  const role = `petstore_test_${name}`;
  const password = `${name}_secret`;
  await query(url, `CREATE ROLE ${role} LOGIN NOSUPERUSER PASSWORD '${password}'`);
  atEnd(t, async () => {
    await query(url, `DROP OWNED BY ${role} CASCADE`);
    await query(url, `DROP ROLE ${role}`);
  });
  return { role, password, url: Object.assign(new URL(url), { username: role, password }).href };
}

const document = readFileSync(join(root, 'docs/postgres.md'), 'utf8');
const blocks = Array.from(
  document.matchAll(/^```(sh|sql)\n(.*?)^```$/gms),
  ([, language = '', text = '']) => ({ language, text }),
);

describe('petstore migrate', { skip: withoutDatabase() }, () => {
  test('migrate creates the tables, and changes nothing the second time', async (t) => {
    const here = new WorkingFolder(t);
    const url = await newSchema();
    const animals = join(root, 'data/animals.jsonl');
    await here.refuses(
      `PETSTORE_STORAGE=${url}`,
      2,
      /^PETSTORE_STORAGE postgres:.* has no petstore tables; .*`node dist\/server\.js migrate --storage URL`/,
    );
    await here.refuses(
      ['import', animals, '--storage', url],
      2,
      /^--storage .*`node dist\/server\.js migrate /,
    );
    await here.prints(
      `PETSTORE_STORAGE=${url} migrate`,
      /^postgres:\S+ is migrated from version 0 to \d+\n$/,
    );
    const made = await tablesOf(url);
    await here.prints(`migrate --storage ${url}`, /^postgres:\S+ is up to date: version \d+\n$/);
    assert.deepEqual(await tablesOf(url), made);
    await here.prints([`PETSTORE_STORAGE=${url}`, 'import', animals], /^301 pets added to /);
    // The second line alone is as long as all that may wait.
    const ofBytes = (bytes: number) => `{"name":"${'x'.repeat(bytes - 26)}","categoryId":1}\n`;
    here.write('long', [30, 2 ** 22, 30].map(ofBytes).join(''));
    await here.prints(`import long --storage ${await newDatabase()}`, /^3 pets added to /);
    const server = await here.start(`PETSTORE_STORAGE=${url}`);
    const [last] = readFileSync(animals, 'utf8').trimEnd().split('\n').slice(-1);
    assert.equal(await (await server.get('/v1/pets/301')).text(), last?.replace('{', '{"id":301,'));
    assert.equal((await server.add('Rex')).headers.get('location'), '/v1/pets/302');
    assert.equal((await server.end()).code, 0);
  });

  test('migrate --print prints SQL that creates the same tables, and can be repeated', async (t) => {
    const here = new WorkingFolder(t);
    const { code, stdout } = await here.command('migrate --print');
    assert.equal(code, 0);
    const [url, one] = [await newSchema(), await newDatabase()];
    const schema = await linesOf(url, 'SELECT current_schema()');
    const sql = stdout.replaceAll('"public"', `"${schema}"`);
    for (let count = 0; count < 2; count++) await query(url, sql);
    assert.deepEqual(await tablesOf(url), await tablesOf(one));
    const storage = await postgresStorage(url);
    await expectAdded(storage, 1n);
    await storage.close();
  });

  test('migrate succeeds in ten concurrent runs', async () => {
    const [url, one] = [await newSchema(), await newDatabase()];
    await Promise.all(Array.from({ length: 10 }, () => migratePostgres(url)));
    assert.deepEqual(await tablesOf(url), await tablesOf(one));
  });

  test('migrate waits 4 s for a lock, which is longer than a server waits', async (t) => {
    const { url } = await openNew(t);
    const release = await hold(t, url, 'LOCK TABLE petstore_schema');
    const migrated = migratePostgres(url);
    await sleep(4_000);
    await release();
    assert.equal((await migrated).from, tablesVersion);
  });

  test('migrate repeats all steps on older tables, and keeps the pets', async (t) => {
    const { url, sql, storage } = await openNew(t);
    const made = await tablesOf(url);
    await expectAdded(storage, 1n);
    await sql('DROP INDEX petstore_pets_sold');
    const earlier = tablesVersion - 1;
    await sql(`UPDATE petstore_schema SET version = ${earlier} WHERE name = 'tables'`);
    await assert.rejects(postgresStorage(url), {
      ...unusable,
      message: new RegExp(
        `tables of version ${earlier}, and version ${tablesVersion} is needed; run \`petstore migrate`,
      ),
    });
    assert.equal((await migratePostgres(url)).from, earlier);
    assert.deepEqual(await tablesOf(url), made);
    await expectAdded(storage, 2n);
  });

  test('a start refuses tables of a later version, and a running server continues', async (t) => {
    const here = new WorkingFolder(t);
    const url = await newDatabase();
    const before = await here.start(`--storage ${url}`);
    const later = tablesVersion + 1;
    await query(url, `UPDATE petstore_schema SET version = ${later}`);
    const refusal = new RegExp(
      `^the database has tables of version ${later}, and this program serves none above ${tablesVersion}; use the later program`,
    );
    for (const line of ['--port 0', '--dev', 'migrate'])
      await here.refuses(`${line} --storage ${url}`, 3, refusal);
    assert.equal(await linesOf(url, 'SELECT DISTINCT version FROM petstore_schema'), `${later}`);
    assert.equal((await before.add('Rex')).status, 201);
  });

  test('a server starts on tables of a later version that are marked compatible', async (t) => {
    const here = new WorkingFolder(t);
    const url = await newDatabase();
    const before = await here.start(`--storage ${url}`);
    // A migration of a later version, while the server runs. Older programs cannot serve its tables.
    await query(
      url,
      `ALTER TABLE petstore_pets ADD COLUMN breed text;
       UPDATE petstore_schema SET version = ${tablesVersion + 1} WHERE name = 'tables';
       UPDATE petstore_schema SET version = ${tablesVersion} WHERE name = 'petstore'`,
    );
    assert.equal((await before.add('Rex')).status, 201);
    const after = await here.start(`--storage ${url}`);
    assert.equal((await after.add('Tom')).headers.get('location'), '/v1/pets/2');
    await here.prints(
      `migrate --storage ${url}`,
      new RegExp(`is up to date: version ${tablesVersion + 1}\n$`),
    );
    await expectStored(url, 2);
  });

  test('a server on tables of an earlier version exits with 3 and names migrate', async (t) => {
    const url = await newDatabase();
    const earlier = tablesVersion - 1;
    await query(url, `UPDATE petstore_schema SET version = ${earlier}`);
    const told = new RegExp(
      `^the database has tables of version ${earlier}, and version ${tablesVersion} is needed; run \`petstore mi`,
    );
    const here = new WorkingFolder(t);
    await here.refuses(`--storage ${url}`, 3, told);
    await assert.rejects(postgresStorage(url), { ...unusable, version: earlier, message: told });
  });

  test('--dev creates the tables by itself', async (t) => {
    const server = await new WorkingFolder(t).start(`--dev --storage ${await newSchema()}`);
    assert.equal((await server.add('Rex')).status, 201);
  });

  test('a role serves with SELECT, INSERT and UPDATE on tables of another role', async (t) => {
    const url = await newSchema();
    const schema = await linesOf(url, 'SELECT current_schema()');
    const here = new WorkingFolder(t);
    const [owner, serving] = [await newRole(t, url), await newRole(t, url)];
    // As in docs/postgres.md.
    await query(
      url,
      `GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${owner.role};
       GRANT USAGE ON SCHEMA ${schema} TO ${serving.role}`,
    );
    const grant = (rights: string) =>
      query(owner.url, `GRANT ${rights} ON ALL TABLES IN SCHEMA ${schema} TO ${serving.role}`);
    const refuse = (line: string, code: number, told: RegExp) =>
      here.refuses(`${line} --storage ${serving.url}`, code, told);
    await refuse('--port 0', 2, /has no petstore tables; .*`node dist\/server\.js migrate /);
    const noOwner =
      /migrate as the owner of the database, or GRANT CREATE .*permission denied for schema/;
    for (const line of ['--dev', 'migrate']) await refuse(line, 3, noOwner);
    await here.prints(`migrate --storage ${owner.url}`, /^postgres/);
    // First no privilege, then SELECT alone, then INSERT without UPDATE.
    const noRight = /GRANT SELECT, INSERT, UPDATE ON ALL TABLES .*permission denied/;
    await refuse('--port 0', 3, noRight);
    for (const right of ['SELECT', 'INSERT']) {
      await grant(right);
      await refuse('--port 0', 3, noRight);
    }
    await grant('SELECT, INSERT, UPDATE');
    for (const line of ['--port 0', '--dev', '--plugin orders']) {
      const server = await here.start(`${line} --storage ${serving.url}`);
      const added = await server.add('Rex');
      for (const path of [added.headers.get('location') ?? '', '/v1/pets?status=sold', '/readyz'])
        assert.equal((await server.get(path)).status, 200, path);
      assert.ok(!server.output.includes(serving.password), 'the password is in no line');
      assert.ok(
        String((await server.waitForLog('listening'))['storage']).includes(`//${serving.role}@`),
      );
      assert.equal((await server.end()).code, 0);
    }
    await expectStored(url, 3);
    for (const statement of [
      'DELETE FROM petstore_pets',
      'TRUNCATE petstore_pets',
      `CREATE TABLE ${schema}.more (id int8)`,
      'DROP TABLE petstore_pets',
    ]) {
      await assert.rejects(query(serving.url, statement), { code: '42501' }, statement);
    }
  });

  test('migrate refuses a storage that is not a database with exit code 2', async (t) => {
    const here = new WorkingFolder(t);
    await here.refuses(
      'migrate',
      2,
      /^--storage file:data\/pets\.jsonl needs no migration; name a database/,
    );
    await here.refuses('migrate x', 2, /takes no operand/);
  });

  test('a database that cannot be used is refused with exit code 3 and one line', async (t) => {
    const nobody = Object.assign(new URL(await adminUrl()), { pathname: '/petstore_nowhere' }).href;
    for (const [line, message] of [
      ['migrate --storage postgres://127.0.0.1:1/x', 'start it.*ECONNREFUSED 127\\.0\\.0\\.1:1\\)'],
      [`--storage ${nobody}`, 'there is no such database'],
      [`migrate --storage ${nobody}`, 'there is no such database'],
    ] as const)
      await new WorkingFolder(t).refuses(
        line,
        3,
        new RegExp(`^the database cannot be used: ${message}`),
      );
    await assert.rejects(postgresStorage('postgres://127.0.0.1:1/x'), unusable);
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

  const overdue = { ...unusable, message: /no response within|due to statement timeout/ };

  test('migrate gives up on a locked version table and on a silent database', async (t) => {
    const { url, far, proxy } = await proxied(t);
    const release = await hold(t, url, 'LOCK TABLE petstore_schema IN ACCESS EXCLUSIVE MODE');
    const since = performance.now();
    const migrations = [url, far].map((database) =>
      assert.rejects(migratePostgres(database), overdue),
    );
    const migrating = new WorkingFolder(t).refuses(
      `migrate --storage ${url}`,
      3,
      /^the database cannot be used: .*due to statement timeout/,
    );
    // All have connected and wait for the table.
    await untilRow(
      url,
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'petstore' AND query LIKE '%petstore_schema%' HAVING count(*) = 3",
    );
    proxy.mode = 'silent';
    await Promise.all([...migrations, migrating]);
    assert.ok(performance.now() - since < 40_000);
    await release();
  });

  test('migrate waits longer for a step on a locked table than other statements do', async (t) => {
    const { url, far, proxy } = await proxied(t);
    await query(url, 'UPDATE petstore_schema SET version = 1');
    const pool = await poolOf(t, { url: far });
    pool.on('connect', () => (proxy.mode = 'silent'));
    const since = performance.now();
    const release = await hold(t, url, 'SELECT * FROM petstore_schema FOR UPDATE');
    await Promise.all(
      [pool, url].map((database) => assert.rejects(migratePostgres(database), overdue)),
    );
    assert.ok(performance.now() - since < 40_000);
    await release();
    const releaseTable = await hold(t, url, 'LOCK TABLE petstore_pets IN ACCESS EXCLUSIVE MODE');
    const migration = migratePostgres(url);
    migration.catch(() => undefined);
    // Longer than any other statement is allowed to take.
    await sleep(21_000);
    await releaseTable();
    assert.ok((await migration).to > 1);
  });

  test('migrate stops the compression of JSON, and adds go on while it waits for a table', async (t) => {
    const { url, sql, storage } = await openNew(t);
    const storageOf = () =>
      sql(
        "SELECT string_agg(attstorage, '') FROM pg_attribute WHERE attname = 'json' AND attrelid IN ('petstore_pets'::regclass, 'petstore_records'::regclass)",
      );
    assert.equal(await storageOf(), 'ee');
    for (const table of ['pets', 'records'])
      await sql(`ALTER TABLE petstore_${table} ALTER COLUMN json SET STORAGE EXTENDED`);
    await sql('UPDATE petstore_schema SET version = 1');

    const release = await hold(t, url, 'SELECT * FROM petstore_pets');
    const reading = assert.rejects(migratePostgres(url), {
      ...unusable,
      message:
        /^a long transaction uses the table petstore_pets; end it and run the command again$/,
    });
    let isOver = false;
    void reading.finally(() => (isOver = true));
    for (let id = 1n; !isOver; id++) {
      await expectAdded(storage, id);
      // Paced, because adding without a pause for 40 s would use a whole core.
      await sleep(20);
    }
    await reading;
    assert.equal(await storageOf(), 'xx');
    await release();
    await migratePostgres(url);
    assert.equal(await storageOf(), 'ee');
  });

  test('tables of this version have the version that the release 1.0.0 requires', async () => {
    const versions = await linesOf(
      await newDatabase(),
      "SELECT version FROM petstore_schema WHERE name = 'petstore'",
    );
    assert.equal(versions, '11');
  });

  test('a start without the package pg says how to install it', async (t) => {
    const here = new WorkingFolder(t);
    const folders = { '.': '', 'opt/node_modules/petstore': 'opt' };
    for (const [folder, installFolder] of Object.entries(folders)) {
      cpSync(join(root, 'dist'), here.at(join(folder, 'dist')), { recursive: true });
      cpSync(join(root, 'package.json'), here.at(join(folder, 'package.json')));
      const startOf = (storage: string) =>
        here.shell(`exec "$0" ${folder}/dist/server.js --port 0 --storage ${storage}`, keyed);
      const prefix = realpathSync(here.at(installFolder));
      const refused = await startOf('postgres://127.0.0.1:1/x').ended;
      assertRefused(refused, 3, new RegExp(`run: npm install --prefix '?${prefix}'? pg@8 `));
      // A server without a database does not need it.
      const memory = startOf('memory:');
      await memory.waitForLog('listening');
      assert.equal((await memory.end()).code, 0);
    }
  });
});

describe('docs/postgres.md', { skip: withoutServer() }, () => {
  test('the commands and statements of docs/postgres.md run in their order', async (t) => {
    const own = await ownUrl();
    const { host } = new URL(own);
    const here = new WorkingFolder(t);
    const cwd = here.path;
    const ran = new Set<string>();
    const textWith = (part: string): string => {
      const block = blocks.find(({ text }) => text.includes(part)) ?? assert.fail(part);
      ran.add(block.text);
      return block.text
        .replaceAll('db.example', host)
        .replaceAll('node dist/', `${process.execPath} ${root}dist/`);
    };
    const env = { PETSTORE_API_KEYS: 'key', PORT: '0' };
    const succeed = async (program: string, ...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await new StartedProcess(program, args, { cwd, env }).ended;
      assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
      return stdout;
    };
    const sql = (url: string, statements: string): Promise<string> =>
      succeed('psql', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', statements);

    // From a file, because psql -c accepts no backslash command after a statement.
    here.write('roles.sql', textWith('CREATE ROLE'));
    await succeed('psql', '-v', 'ON_ERROR_STOP=1', '-d', own, '-f', 'roles.sql');
    const [install, migrate = '', serve = ''] = textWith('migrate').split('\n');
    assert.equal(install, 'npm install pg@8');
    await succeed('sh', '-c', migrate);
    const owned = `postgres://petstore_owner@${host}/petstore`;
    await sql(owned, textWith('GRANT DELETE'));
    // With exec, so that the signal reaches the server and not a shell.
    const command = serve.replace(process.execPath, `exec ${process.execPath}`);
    const server = here.shell(command, env);
    await server.waitForLog('listening');
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200);

    const animal = '{"id":1,"name":"Rex","categoryId":5}';
    here.write('data/pets.jsonl', `${animal}\n`);
    await succeed('sh', '-c', textWith('PETSTORE_TO='));
    const headers = { Authorization: 'Bearer key' };
    assert.equal(await (await fetch(`${server.url}/v1/pets/1`, { headers })).text(), animal);

    await sql(own, 'CREATE DATABASE restored OWNER petstore_owner');
    const [dump, restore] = [textWith('pg_dump'), textWith('pg_restore')];
    // An older pg_dump refuses the server. The server packages of npm have none.
    if (majorVersion('pg_dump') >= serverVersion()) {
      await succeed('sh', '-c', dump);
      await succeed('sh', '-c', restore);
      await expectStored(`postgres://petstore@${host}/restored`, 1);
    }

    assert.match(await sql(owned, textWith('DELETE FROM petstore_idempotency')), /^DELETE \d+$/m);
    await sql(own, textWith('pg_stat_activity'));
    assert.deepEqual(
      blocks.map(({ text }) => text).filter((text) => !ran.has(text)),
      [],
    );
  });
});
