// copy between files and a database: many animals there and back, and what may happen on the way.
import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { notes } from '../storage/records.js';
import { copyPets, memoryStorage, toByteString, type StoredText } from '../../dist/index.js';
import { postgresStorage, postgresTarget } from '../../dist/postgres/index.js';
import { animalsIn, digestOf, hardAnimals, someAnimals, writeAnimals } from '../standalone/copy.js';
import { command } from '../support/command.js';
import {
  apiKey,
  assertRefused,
  folder,
  StartedProcess,
  serverFile,
  startServer,
} from '../support/process.js';
import { newDatabase, newSchema, query, withOptions, withoutDatabase } from './database.js';
import {
  assertInTurn,
  hold,
  idsIn,
  intercept,
  open,
  poolOf,
  proxied,
  rex,
  unusable,
  untilRow,
  untilWaiting,
} from './scene.js';
import { until } from '../support/waiting.js';

async function rowsIn(url: string): Promise<number> {
  return Number((await query(url, 'SELECT count(*) AS rows FROM petstore_pets'))[0]?.['rows']);
}

/** Kills a command as soon as it has done a part. */
async function killed(
  t: TestContext,
  cwd: string,
  args: readonly string[],
  hasBegun: () => boolean | Promise<boolean>,
): Promise<void> {
  // The tests below measure the same with fewer animals, and measuring costs a fifth.
  const options = { cwd, env: { NODE_V8_COVERAGE: '' } };
  const running = new StartedProcess(process.execPath, [serverFile, ...args], options);
  atEnd(t, () => running.end('SIGKILL'));
  await until('a part of it', hasBegun);
  assert.equal((await running.end('SIGKILL')).signal, 'SIGKILL');
}

const pet = (id: number): StoredText => ({
  id: BigInt(id),
  json: toByteString(`{"id":${id},"name":"Rex","categoryId":1}`),
});

describe('copy and PostgreSQL', { skip: withoutDatabase() }, () => {
  test('40,000 animals from a file to PostgreSQL and back, both ways killed in the middle: the same bytes', async (t) => {
    const cwd = folder(t);
    const url = await newDatabase();
    const animals = someAnimals(40_000);
    writeAnimals(join(cwd, 'a'), animals);
    const [a, b] = [join(cwd, 'a'), join(cwd, 'b')];
    const sum = `SHA-256 of both ${digestOf(animals)}\n`;
    const there = ['copy', '--from', 'file:a', '--to', url];
    await killed(t, cwd, there, async () => (await rowsIn(url)) > 0);
    // What it sent last may be at work for a moment longer.
    await untilRow(
      url,
      "SELECT 1 FROM pg_stat_activity HAVING count(*) FILTER (WHERE application_name = 'petstore' AND state = 'active') = 0",
    );
    const present = await rowsIn(url);
    assert.ok(present > 0 && present < animals.length, `${present} were copied before`);
    assert.match(
      (await command(there, { cwd })).stdout,
      new RegExp(
        `^40000 animals of file:a copied to postgres\\S+, ${present} of them before; ${sum}$`,
      ),
    );
    assert.equal(await rowsIn(url), animals.length);

    const back = ['copy', '--from', url, '--to', 'file:b'];
    await killed(t, cwd, back, () => existsSync(b) && statSync(b).size > 0);
    assert.ok(statSync(b).size < statSync(a).size);
    assert.ok((await command(back, { cwd })).stdout.endsWith(sum));
    assert.deepEqual(animalsIn(b), animals);

    const storage = await open(t, url);
    assert.equal((await storage.insert(rex)).id, 40_001n, 'ids go on behind those copied');
    assert.deepEqual(
      (await storage.list({ limit: 2, status: 'sold', after: 39_990n })).map(({ id }) => id),
      [39_992n, 39_996n],
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
        (await command(['copy', '--from', 'file:a', '--to', url], { cwd })).stdout,
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
      (await command(['copy', '--from', readOnly, '--to', 'file:b'], { cwd })).stdout,
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
    await (await open(t, url)).insert(rex);
    writeAnimals(join(cwd, 'a'), hardAnimals);
    const bare = await newSchema();
    const noTables = 'postgres\\S+ has no tables .*`node dist/server\\.js migrate ';
    for (const [from, to, code, message] of [
      ['file:a', url, 3, '^the storage to copy to holds animals that are not those to be copied'],
      ['file:a', bare, 2, `^--to ${noTables}`],
      [bare, 'file:b', 2, `^--from ${noTables}`],
      [url, url, 2, 'are the same'],
      ['file:a', 'postgres://127.0.0.1:1/x', 3, '^the database cannot be used'],
    ] as const)
      assertRefused(
        await command(['copy', '--from', from, '--to', to], { cwd }),
        code,
        new RegExp(message),
      );
    await assert.rejects(postgresTarget(bare), { ...unusable, message: /petstore migrate/ });
    assert.equal(await rowsIn(url), 1);
    assert.ok(!existsSync(join(cwd, 'b')));
  });

  test('reading may take longer than a client would wait', async (t) => {
    const url = await newDatabase();
    await (await open(t, url)).insert(rex);
    const source = await open(t, url, { isSource: true });
    const release = await hold(t, url, 'LOCK TABLE petstore_pets');
    const reading = source.list({ limit: 1 });
    await untilWaiting(url, 1, 'petstore_pets');
    // A server would have given it up by then.
    await Promise.race([wait(4_500), reading]);
    await release();
    assert.equal((await reading).length, 1);
  });

  test('opening a source writes nothing, where opening a storage to serve tries whether it may', async (t) => {
    const pool = await poolOf(t, { max: 1 });
    const asked: string[] = [];
    intercept(pool, ({ text }, send) => (asked.push(text), send()));
    for (const isSource of [true, false]) {
      const storage = await open(t, pool, { isSource });
      await storage.list({ limit: 1 });
      assert.equal(
        asked.some((text) => text.includes('INSERT')),
        !isSource,
      );
    }
  });

  test('what reading fails by is told with its reason', async (t) => {
    const { far, proxy } = await proxied(t);
    const source = await open(t, far, { isSource: true });
    const records = source.records?.('orders', notes) ?? assert.fail();
    await records.opened;
    proxy.mode = 'closed';
    const told = { ...unusable, message: /^the database cannot be used: .* \(.+\)$/ };
    const to = { open: () => assert.fail('opened'), openTarget: () => assert.fail('opened') };
    await assert.rejects(copyPets(source, to), told);
    await assert.rejects(source.list({ limit: 1 }), told);
    await assert.rejects(records.list({ limit: 1 }), told);
  });

  test('a reply that is lost after the commit: one line says to run it again, and then the batch is there once', async (t) => {
    const { url, far, proxy } = await proxied(t);
    const source = memoryStorage();
    for (let id = 1; id <= 3; id++) await source.insert(rex);
    const to = { open: () => postgresStorage(url), openTarget: () => postgresTarget(far) };
    const opened = await to.openTarget();
    await opened.adopt([pet(1)]);
    proxy.mode = 'deaf';
    await assert.rejects(opened.adopt([pet(2)]), {
      ...unusable,
      message: /run it again: it goes on/,
    });
    await opened.close();
    await until('the batch', async () => (await rowsIn(url)) === 2);
    proxy.mode = 'open';
    const { count, present } = await copyPets(source, to);
    assert.deepEqual([count, present], [3, 2]);
    assertInTurn(await idsIn(url), 3);
    assert.deepEqual(await query(url, 'SELECT last_id FROM petstore_counters'), [{ last_id: '3' }]);
  });

  test('whoever adds to the database meanwhile ends the copy, and loses nothing', async (t) => {
    const url = await newDatabase();
    const target = await postgresTarget(url);
    atEnd(t, () => target.close());
    const storage = await open(t, url);
    await target.adopt([pet(1)]);
    assert.equal((await storage.insert(rex)).id, 2n);
    await assert.rejects(target.adopt([pet(2)]), { code: 'storage_in_use' });
    assert.equal((await storage.get(2n))?.name, 'Rex');
  });

  test('ids that the database has given, or has an animal of, are not given again', async (t) => {
    const url = await newDatabase();
    await query(url, 'UPDATE petstore_counters SET last_id = 5');
    const source = memoryStorage();
    await source.insert(rex);
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
