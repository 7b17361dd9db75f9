// copy between files and a database: 100,000 animals there and back, and what may happen on the
// way.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { atEnd } from '../support/at-end.js';
import { copyPets, memoryStorage, toByteString, type StoredText } from '../../dist/index.js';
import { postgresStorage, postgresTarget } from '../../dist/postgres/index.js';
import { animalsIn, digestOf, hardAnimals, someAnimals, writeAnimals } from '../standalone/copy.js';
import { command } from '../support/command.js';
import {
  apiKey,
  assertRefused,
  folder,
  runServer,
  StartedProcess,
  serverFile,
  startServer,
} from '../support/process.js';
import { newDatabase, newSchema, query, withOptions, withoutDatabase } from './database.js';
import { TcpProxy } from './proxy.js';
import { until } from '../support/waiting.js';

async function rowsIn(url: string): Promise<number> {
  return Number((await query(url, 'SELECT count(*) AS rows FROM petstore_pets'))[0]?.['rows']);
}

const pet = (id: number): StoredText => ({
  id: BigInt(id),
  json: toByteString(`{"id":${id},"name":"","categoryId":1}`),
});

describe('copy and PostgreSQL', { skip: withoutDatabase() }, () => {
  test('100,000 animals from a file to PostgreSQL and back, both ways killed in the middle: the same bytes', async (t) => {
    // The tests below measure the same with fewer animals, and measuring costs a fifth.
    const here = { cwd: folder(t), env: { NODE_V8_COVERAGE: '' } };
    const { cwd } = here;
    const url = await newDatabase();
    const animals = someAnimals(100_000);
    writeAnimals(join(cwd, 'made'), animals);
    // A file as copy makes it, so that its commit lines stand where those of another copy do.
    assert.equal(
      (await runServer(['copy', '--from', 'file:made', '--to', 'file:a'], here)).code,
      0,
    );
    const there = ['copy', '--from', 'file:a', '--to', url];
    const cutThere = new StartedProcess(process.execPath, [serverFile, ...there], here);
    await until('a part of it', async () => (await rowsIn(url)) > 0);
    assert.equal((await cutThere.end('SIGKILL')).signal, 'SIGKILL');
    // What it sent last may be at work for a moment longer.
    await until(
      'the end of its session',
      async () =>
        (
          await query(
            url,
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'petstore' AND state = 'active'",
          )
        ).length === 0,
    );
    const present = await rowsIn(url);
    assert.ok(present > 0 && present < animals.length, `${present} were copied before`);
    const sum = `SHA-256 of both ${digestOf(animals)}\n`;
    const { stdout } = await runServer(there, here);
    assert.match(
      stdout,
      new RegExp(
        `^100000 animals of file:a copied to postgres\\S+, ${present} of them before; ${sum}$`,
      ),
    );
    assert.equal(await rowsIn(url), animals.length);

    const back = ['copy', '--from', url, '--to', 'file:b'];
    const cutBack = new StartedProcess(process.execPath, [serverFile, ...back], here);
    await until(
      'a part of it',
      () => existsSync(join(cwd, 'b')) && statSync(join(cwd, 'b')).size > 0,
    );
    assert.equal((await cutBack.end('SIGKILL')).signal, 'SIGKILL');
    const bytes = readFileSync(join(cwd, 'a'));
    assert.ok(statSync(join(cwd, 'b')).size < bytes.length);
    assert.ok((await runServer(back, here)).stdout.endsWith(sum));
    assert.deepEqual(animalsIn(join(cwd, 'b')), animals);

    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    assert.equal(
      (await storage.insert({ name: 'Rex', categoryId: 1n })).id,
      100_001n,
      'ids go on behind those that were copied',
    );
    assert.deepEqual(
      (await storage.list({ limit: 2, status: 'sold', after: 99_990n })).map(({ id }) => id),
      [99_992n, 99_996n],
    );
  });

  test('hard animals keep ids and bytes, there, to another database and back', async (t) => {
    const cwd = folder(t);
    const [one, other] = await Promise.all([newDatabase(), newDatabase()]);
    writeAnimals(join(cwd, 'a'), hardAnimals);
    for (const [from, to] of [
      ['file:a', one],
      [one, other],
      [other, 'file:b'],
    ] as const) {
      assert.ok(
        (await command(['copy', '--from', from, '--to', to], { cwd })).stdout.endsWith(
          `SHA-256 of both ${digestOf(hardAnimals)}\n`,
        ),
      );
    }
    assert.deepEqual(animalsIn(join(cwd, 'b')), hardAnimals);
    const server = await startServer(t, ['--storage', other], { cwd });
    assert.equal((await server.get('/readyz')).status, 503, 'before anything was added');
    assert.equal(
      await (await server.get('/v1/pets/9223372036854775807')).text(),
      hardAnimals.at(-1),
    );
    assert.equal(await (await server.get('/v1/pets?status=sold')).text(), `[${hardAnimals[1]}]`);
    assert.equal((await server.add('Rex')).status, 503, 'there are no ids left');
  });

  test('orders go along, to a database and back, and go on behind the last', async (t) => {
    const cwd = folder(t);
    const url = await newDatabase();
    const order = {
      method: 'POST',
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
      body: '{"petId":1,"quantity":2}',
    };
    const place = async (storage: string): Promise<string> => {
      const server = await startServer(t, ['--storage', storage, '--plugin', 'orders'], { cwd });
      await server.add('Rex');
      for (let count = 0; count < 3; count++)
        assert.equal((await fetch(`${server.url}/v1/store/orders`, order)).status, 201);
      const listed = await (await server.get('/v1/store/orders')).text();
      assert.equal((await server.end()).code, 0);
      return listed;
    };
    const first = await place('file:a');
    for (const again of ['', ', 3 of them before']) {
      assert.match(
        (await runServer(['copy', '--from', 'file:a', '--to', url], { cwd })).stdout,
        new RegExp(
          `^1 animal .*\n3 orders of file:a copied to postgres\\S+${again}; SHA-256 of both \\S+\n$`,
        ),
      );
    }
    const listed = await place(url);
    assert.ok(listed.startsWith(first.slice(0, -1)));
    // As a standby has it.
    const readOnly = withOptions(url, '-cdefault_transaction_read_only=on');
    assert.match(
      (await runServer(['copy', '--from', readOnly, '--to', 'file:b'], { cwd })).stdout,
      /^2 animals .*\n6 orders /,
    );
    assert.deepEqual(
      animalsIn(join(cwd, 'b.orders')).map((line) => JSON.parse(line)),
      JSON.parse(listed),
    );
    await assert.rejects(postgresTarget(url, "x'; DROP"), { name: 'TypeError' });
  });

  test('a database with other animals, without tables, or that is the same, is refused and left as it is', async (t) => {
    const cwd = folder(t);
    const url = await newDatabase();
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    await storage.insert({ name: 'other', categoryId: 1n });
    writeAnimals(join(cwd, 'a'), hardAnimals);
    assertRefused(
      await command(['copy', '--from', 'file:a', '--to', url], { cwd }),
      3,
      /^the storage to copy to holds animals that are not those to be copied/,
    );
    assert.equal(await rowsIn(url), 1);
    const bare = await newSchema();
    assertRefused(
      await command(['copy', '--from', 'file:a', '--to', bare], { cwd }),
      2,
      /^--to postgres\S+ has no tables .*`node dist\/server\.js migrate /,
    );
    assertRefused(
      await command(['copy', '--from', bare, '--to', 'file:b'], { cwd }),
      2,
      /^--from postgres\S+ has no tables .*`node dist\/server\.js migrate /,
    );
    assertRefused(await command(['copy', '--from', url, '--to', url], { cwd }), 2, /are the same/);
    assertRefused(
      await command(['copy', '--from', 'file:a', '--to', 'postgres://127.0.0.1:1/x'], { cwd }),
      3,
      /^the database cannot be used/,
    );
    await assert.rejects(postgresTarget(bare), {
      code: 'storage_unusable',
      message: /petstore migrate/,
    });
    assert.ok(!existsSync(join(cwd, 'b')));
  });

  test('reading may take longer than a client would wait', async (t) => {
    const cwd = folder(t);
    const url = await newDatabase();
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    await storage.insert({ name: 'Rex', categoryId: 1n });
    const holder = new pg.Client({ connectionString: url });
    atEnd(t, () => holder.end());
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('LOCK TABLE petstore_pets');
    const copying = new StartedProcess(
      process.execPath,
      [serverFile, 'copy', '--from', url, '--to', 'file:b'],
      { cwd },
    );
    const blocked =
      "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'petstore_pets'::regclass";
    await until('a page that is waited for', async () => (await query(url, blocked)).length === 1);
    // A server would have given it up by then.
    await Promise.race([wait(4_500), copying.ended]);
    await holder.query('ROLLBACK');
    const { code, stdout, stderr } = await copying.ended;
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^1 animal /);
  });

  test('opening a source writes nothing, where opening a storage to serve tries whether it may', async (t) => {
    const pool = new pg.Pool({ connectionString: await newDatabase(), max: 1 });
    atEnd(t, () => pool.end());
    const asked: string[] = [];
    pool.on('connect', (client) => {
      const ask = client.query.bind(client);
      client.query = (...args: unknown[]) => {
        asked.push(Object(args[0]).text);
        return Reflect.apply(ask, client, args);
      };
    });
    for (const isSource of [true, false]) {
      const storage = await postgresStorage(pool, { isSource });
      await storage.list({ limit: 1 });
      await storage.close();
      assert.equal(
        asked.some((text) => text.includes('INSERT')),
        !isSource,
      );
    }
  });

  test('what reading fails by is told with its reason', async (t) => {
    const url = await newDatabase();
    const { hostname, port } = new URL(url);
    const proxy = await TcpProxy.start(Number(port || 5432), hostname);
    atEnd(t, () => proxy.close());
    const source = await postgresStorage(proxy.urlFor(url), { isSource: true });
    atEnd(t, () => source.close());
    const records = source.records?.('orders', {
      json: (_id, text: string) => toByteString(text),
      parse: (json) => ({ id: 1n, draft: json }),
    });
    await records?.opened;
    proxy.mode = 'closed';
    const told = { code: 'storage_unusable', message: /^the database cannot be used: .* \(.+\)$/ };
    const to = { open: () => assert.fail('opened'), openTarget: () => assert.fail('opened') };
    await assert.rejects(copyPets(source, to), told);
    await assert.rejects(source.list({ limit: 1 }), told);
    assert.ok(records !== undefined);
    await assert.rejects(records.list({ limit: 1 }), told);
  });

  test('a reply that is lost after the commit: one line says to run it again, and then the batch is there once', async (t) => {
    const url = await newDatabase();
    const { hostname, port } = new URL(url);
    const proxy = await TcpProxy.start(Number(port || 5432), hostname);
    atEnd(t, () => proxy.close());
    const source = memoryStorage();
    for (let id = 1; id <= 3; id++) await source.insert({ name: '', categoryId: 1n });
    const far = {
      open: () => postgresStorage(url),
      openTarget: () => postgresTarget(proxy.urlFor(url)),
    };
    const opened = await far.openTarget();
    await opened.adopt([pet(1)]);
    proxy.mode = 'deaf';
    await assert.rejects(opened.adopt([pet(2)]), {
      code: 'storage_unusable',
      message: /run it again: it goes on/,
    });
    await opened.close();
    await until('the batch', async () => (await rowsIn(url)) === 2);
    proxy.mode = 'open';
    assert.deepEqual(
      (({ count, present }) => [count, present])(await copyPets(source, far)),
      [3, 2],
    );
    assert.deepEqual(
      await query(url, 'SELECT id FROM petstore_pets ORDER BY id'),
      ['1', '2', '3'].map((id) => ({ id })),
    );
    assert.deepEqual(await query(url, 'SELECT last_id FROM petstore_counters'), [{ last_id: '3' }]);
  });

  test('whoever adds to the database meanwhile ends the copy, and loses nothing', async (t) => {
    const url = await newDatabase();
    const target = await postgresTarget(url);
    atEnd(t, () => target.close());
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    await target.adopt([pet(1)]);
    assert.equal((await storage.insert({ name: 'Rex', categoryId: 1n })).id, 2n);
    await assert.rejects(target.adopt([pet(2)]), { code: 'storage_in_use' });
    assert.equal((await storage.get(2n))?.name, 'Rex');
  });

  test('ids that the database has given, or has an animal of, are not given again', async (t) => {
    const url = await newDatabase();
    await query(url, 'UPDATE petstore_counters SET last_id = 5');
    const source = memoryStorage();
    await source.insert({ name: '', categoryId: 1n });
    const to = { open: () => postgresStorage(url), openTarget: () => postgresTarget(url) };
    await assert.rejects(copyPets(source, to), {
      code: 'storage_unusable',
      message: /gave ids up to 5; 1 is too low/,
    });
    const target = await postgresTarget(url);
    atEnd(t, () => target.close());
    await query(url, "INSERT INTO petstore_pets (id, json) VALUES (7, '')");
    await assert.rejects(target.adopt([pet(6), pet(7)]), {
      code: 'storage_unusable',
      message: /duplicate key/,
    });
    assert.deepEqual(
      await query(
        url,
        'SELECT last_id, (SELECT count(*) FROM petstore_pets) AS pets FROM petstore_counters',
      ),
      [{ last_id: '5', pets: '1' }],
    );
  });
});
