// `copy`, `import` and `--seed` with a database, with interruptions.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { notes } from '../storage/records.js';
import { copyPets, memoryStorage, type StoredText, toByteString } from '../../dist/index.js';
import {
  postgresImport,
  postgresStorage,
  postgresTarget,
  seedPostgres,
} from '../../dist/postgres/index.js';
import { petLinesIn, digestOf, edgeCasePets, somePets, writePets } from '../standalone/copy.js';
import { WorkingFolder } from '../support/working-folder.js';
import { apiKey, messagesOf } from '../support/process.js';
import { newDatabase, newSchema, query, withOptions, withoutDatabase } from './database.js';
import {
  linesOf,
  statementsOf,
  expectAdded,
  expectStored,
  hold,
  namesIn,
  open,
  openNew,
  poolOf,
  proxied,
  rex,
  untilRow,
  untilWaiting,
  unusable,
} from './scene.js';
import { mockTimeouts } from '../support/timers.js';
import { until } from '../support/waiting.js';

/** Makes a database drop the pet 2 without an error. */
async function dropPet2(url: string): Promise<void> {
  await query(
    url,
    `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
     CREATE TRIGGER dropping BEFORE INSERT ON petstore_pets FOR EACH ROW WHEN (NEW.id = 2)
     EXECUTE FUNCTION nothing()`,
  );
}

async function countIn(url: string): Promise<number> {
  return Number(await linesOf(url, 'SELECT count(*) FROM petstore_pets'));
}

/** Kills a command once it has done a part of its work. */
async function killed(
  here: WorkingFolder,
  line: string,
  hasBegun: () => boolean | Promise<boolean>,
): Promise<void> {
  // Without coverage, which costs a fifth here; other tests cover the same code.
  const running = here.begin(line, { NODE_V8_COVERAGE: '' });
  await until('a part of the work', hasBegun);
  assert.equal((await running.end('SIGKILL')).signal, 'SIGKILL');
}

/** The target of a copy; `far` is the URL that adds pets. */
const copyTo = (url: string, far = url) => ({
  open: () => postgresStorage(url),
  openTarget: () => postgresTarget(far),
});

const pet = (id: number): StoredText => ({
  id: BigInt(id),
  json: toByteString(`{"id":${id},"name":"Rex","categoryId":5,"status":"available"}`),
});

describe('copy and PostgreSQL', { skip: withoutDatabase() }, () => {
  test('copies 40,000 pets to a database and back, byte for byte, across kill -9', async (t) => {
    const pets = somePets(40_000);
    const here = new WorkingFolder(t);
    const url = await newDatabase();
    writePets(here.at('a'), pets);
    const sum = `SHA-256 of both ${digestOf(pets)}\n`;
    const there = `copy --from file:a --to ${url}`;
    await killed(here, there, async () => (await countIn(url)) > 0);
    // The last statement may run for a moment longer.
    await untilRow(
      url,
      "SELECT 1 FROM pg_stat_activity HAVING count(*) FILTER (WHERE application_name = 'petstore' AND state = 'active') = 0",
    );
    const present = await countIn(url);
    assert.ok(present > 0 && present < pets.length, `${present} were copied before`);
    await here.prints(
      there,
      new RegExp(
        `^40000 pets of file:a copied to postgres\\S+, ${present} of them already there; ${sum}$`,
      ),
    );
    assert.equal(await countIn(url), pets.length);

    const back = `copy --from ${url} --to file:b`;
    await killed(here, back, () => here.size('b') > 0);
    assert.ok(here.size('b') < here.size('a'));
    await here.prints(back, new RegExp(`${sum}$`));
    assert.deepEqual(petLinesIn(here.at('b')), pets);

    const storage = await open(t, url);
    await expectAdded(storage, 40_001n);
    assert.deepEqual(
      (await storage.list({ limit: 2, status: 'sold', after: 39_990n })).map(({ id }) => id),
      [39_992n, 39_996n],
    );
  });

  test('copies edge-case pets byte for byte, to another database and back', async (t) => {
    const here = new WorkingFolder(t);
    const [one, other] = await Promise.all([newDatabase(), newDatabase()]);
    writePets(here.at('a'), edgeCasePets);
    const copied = new RegExp(`SHA-256 of both ${digestOf(edgeCasePets)}\n$`);
    for (const [from, to] of [
      ['file:a', one],
      [one, other],
      [other, 'file:b'],
    ])
      await here.prints(`copy --from ${from} --to ${to}`, copied);
    assert.deepEqual(petLinesIn(here.at('b')), edgeCasePets);
    const server = await here.start(`--storage ${other}`);
    assert.equal((await server.get('/readyz')).status, 503, 'before anything was added');
    assert.equal(
      await (await server.get('/v1/pets/9223372036854775807')).text(),
      edgeCasePets.at(-1),
    );
    assert.equal(await (await server.get('/v1/pets?status=sold')).text(), `[${edgeCasePets[1]}]`);
    assert.equal((await server.add('Rex')).status, 503, 'no ids are left');
  });

  test('copies orders to a database and back', async (t) => {
    const here = new WorkingFolder(t);
    const url = await newDatabase();
    const order = {
      method: 'POST',
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
      body: '{"petId":1,"quantity":2}',
    };
    const place = async (storage: string): Promise<string> => {
      const server = await here.start(`--plugin orders --storage ${storage}`);
      await server.add('Rex');
      for (let count = 0; count < 3; count++)
        assert.equal((await fetch(`${server.url}/v1/store/orders`, order)).status, 201);
      const listed = await (await server.get('/v1/store/orders')).text();
      assert.equal((await server.end()).code, 0);
      return listed;
    };
    const first = await place('file:a');
    for (const again of ['', ', 3 of them already there'])
      await here.prints(
        `copy --from file:a --to ${url}`,
        new RegExp(
          `^1 pet .*\n3 orders of file:a copied to postgres\\S+${again}; SHA-256 of both \\S+\n$`,
        ),
      );
    const listed = await place(url);
    assert.ok(listed.startsWith(first.slice(0, -1)));
    // Read-only, as a standby is.
    const readOnly = withOptions(url, '-cdefault_transaction_read_only=on');
    await here.prints(`copy --from ${readOnly} --to file:b`, /^2 pets .*\n6 orders /);
    assert.deepEqual(
      petLinesIn(here.at('b.orders')).map((line) => JSON.parse(line)),
      JSON.parse(listed),
    );
    await assert.rejects(postgresTarget(url, "x'; DROP"), { name: 'TypeError' });
  });

  test('a copy refuses a target with other pets or without tables, and its source as target', async (t) => {
    const here = new WorkingFolder(t);
    const { url, storage } = await openNew(t);
    await storage.insert(rex);
    writePets(here.at('a'), edgeCasePets);
    const bare = await newSchema();
    const noTables = 'postgres\\S+ has no petstore tables; .*`node dist/server\\.js migrate ';
    for (const [from, to, code, message] of [
      ['file:a', url, 3, '^the storage to copy to has other pets than the source'],
      ['file:a', bare, 2, `^--to ${noTables}`],
      [bare, 'file:b', 2, `^--from ${noTables}`],
      [url, url, 2, 'are the same'],
      ['file:a', 'postgres://127.0.0.1:1/x', 3, '^the database cannot be used'],
    ] as const)
      await here.refuses(`copy --from ${from} --to ${to}`, code, new RegExp(message));
    await assert.rejects(postgresTarget(bare), { ...unusable, message: /petstore migrate/ });
    assert.equal(await countIn(url), 1);
    assert.deepEqual(here.names(), ['a']);
  });

  test('a read of the source of a copy may take longer than one for a client', async (t) => {
    const { url, storage } = await openNew(t);
    await storage.insert(rex);
    const source = await open(t, url, { isSource: true });
    const release = await hold(t, url, 'LOCK TABLE petstore_pets');
    const reading = source.list({ limit: 1 });
    await untilWaiting(url, 1, 'petstore_pets');
    // A read for a client would have timed out by then.
    await Promise.race([wait(4_500), reading]);
    await release();
    assert.equal((await reading).length, 1);
  });

  test('a command has more time than a server to connect to a slow database', async (t) => {
    const { far, proxy } = await proxied(t);
    // The first reply of the database has some 400 bytes.
    proxy.bytesPerSecond = 120;
    await assert.rejects(postgresStorage(far), {
      ...unusable,
      message: /timeout exceeded when trying to connect|no response within 2000 ms/,
    });
    const opening = postgresTarget(far);
    await wait(4_000);
    proxy.bytesPerSecond = Number.POSITIVE_INFINITY;
    await (await opening).close();
  });

  test('opening the source of a copy writes nothing, not even after a while', async (t) => {
    const pool = await poolOf(t, { max: 1 });
    const statements = statementsOf(pool);
    for (const isSource of [true, false]) {
      const timeouts = mockTimeouts(t);
      const storage = await open(t, pool, { isSource });
      await storage.list({ limit: 1 });
      // A server deletes expired idempotency keys after 10 s.
      timeouts.tick(10_000);
      timeouts.reset();
      await storage.close();
      assert.equal(
        statements.some(({ text }) => text.includes('INSERT')),
        !isSource,
      );
    }
  });

  test('a copy reports the reason if reading its source fails', async (t) => {
    const { far, proxy } = await proxied(t);
    const source = await open(t, far, { isSource: true });
    const records = source.records?.('orders', notes) ?? assert.fail();
    await records.opened;
    proxy.mode = 'closed';
    const withReason = { ...unusable, message: /^the database cannot be used: .* \(.+\)$/ };
    const to = { open: () => assert.fail('opened'), openTarget: () => assert.fail('opened') };
    await assert.rejects(copyPets(source, to), withReason);
    await assert.rejects(source.list({ limit: 1 }), withReason);
    await assert.rejects(records.list({ limit: 1 }), withReason);
  });

  test('a copy repeated after a lost result stores its pets once', async (t) => {
    const { url, far, proxy } = await proxied(t);
    const source = memoryStorage();
    await expectAdded(source, 1n, 2n, 3n);
    const to = copyTo(url, far);
    const opened = await to.openTarget();
    await opened.adopt([pet(1)]);
    proxy.mode = 'deaf';
    await assert.rejects(opened.adopt([pet(2)]), {
      ...unusable,
      message: /run the command again; it goes on/,
    });
    await opened.close();
    await until('the batch', async () => (await countIn(url)) === 2);
    proxy.mode = 'open';
    const { count, present } = await copyPets(source, to);
    assert.deepEqual([count, present], [3, 2]);
    await expectStored(url, 3);
    assert.equal(await linesOf(url, 'SELECT last_id FROM petstore_counters'), '3');
  });

  test('a copy ends if another program adds to the database', async (t) => {
    const { url, storage } = await openNew(t);
    const target = await postgresTarget(url);
    atEnd(t, () => target.close());
    await target.adopt([pet(1)]);
    await expectAdded(storage, 2n);
    await assert.rejects(target.adopt([pet(2)]), { code: 'storage_in_use' });
    assert.equal((await storage.get(2n))?.name, 'Rex');
  });

  test('a copy refuses ids that the database has given or that rows have', async (t) => {
    const url = await newDatabase();
    await query(url, 'UPDATE petstore_counters SET last_id = 5');
    const source = memoryStorage();
    await source.insert(rex);
    await assert.rejects(copyPets(source, copyTo(url)), {
      ...unusable,
      message: /gave ids up to 5; 1 is too low/,
    });
    const target = await postgresTarget(url);
    atEnd(t, () => target.close());
    await query(url, "INSERT INTO petstore_pets (id, json) VALUES (7, '')");
    await assert.rejects(target.adopt([pet(6), pet(7)]), { ...unusable, message: /duplicate key/ });
    const state =
      'SELECT last_id, (SELECT count(*) FROM petstore_pets) AS pets FROM petstore_counters';
    assert.equal(await linesOf(url, state), '5|1');
  });
});

const source = 'ab'.repeat(32);
const silent = () => undefined;
const namesTo = (count: number) => Array.from({ length: count }, (_, index) => `${index}`);
const draftsOf = (count: number) => namesTo(count).map((name) => ({ name, categoryId: 1n }));

/** Returns a folder with pets in `in.jsonl`. */
function folderWith(t: TestContext, count: number): WorkingFolder {
  const lines = namesTo(count).map((name) => `{"name":"${name}","categoryId":1}\n`);
  return new WorkingFolder(t, { 'in.jsonl': lines.join('') });
}

describe('an import into a database', { skip: withoutDatabase() }, () => {
  /** Opens an import behind a proxy. */
  async function importing(t: TestContext) {
    const { url, far, proxy } = await proxied(t);
    const target = await postgresImport(far, source, silent);
    atEnd(t, () => target.close());
    return { url, proxy, target };
  }

  test('F11 looks up a batch whose result was lost instead of adding it again', async (t) => {
    const { url, proxy, target } = await importing(t);
    assert.equal(await target.add(draftsOf(10)), 10);
    proxy.mode = 'deaf';
    const adding = target.add(draftsOf(500));
    await until('a lost result', () => proxy.repliesLost > 0);
    proxy.mode = 'closed';
    await until('the batch', async () => (await countIn(url)) === 510);
    proxy.mode = 'open';
    assert.equal(await adding, 510);
    assert.equal(await target.add(draftsOf(1)), 511);
    await expectStored(url, 511);
  });

  test('F11 waits for a batch that may still be in flight', async (t) => {
    const { url, proxy, target } = await importing(t);
    // The connection is lost while the statement waits in the trigger.
    await query(
      url,
      `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NEW; END';
       CREATE TRIGGER slow BEFORE INSERT ON petstore_pets FOR EACH STATEMENT EXECUTE FUNCTION slow()`,
    );
    const sent = proxy.bytesSent;
    const adding = target.add(draftsOf(3));
    await until('the statement', () => proxy.bytesSent > sent + 100);
    proxy.cut();
    assert.equal(await adding, 3);
    assert.deepEqual(await namesIn(url), ['0', '1', '2']);
  });

  test('F11 adds no pet of a batch if a trigger drops one of them', async (t) => {
    const { url, target } = await importing(t);
    await dropPet2(url);
    await assert.rejects(target.add(draftsOf(3)), { ...unusable, message: /2 rows kept of an/ });
    await expectStored(url, 0);
  });

  test('F11 adds each pet once in concurrent and repeated imports', async (t) => {
    const url = await newDatabase();
    const here = folderWith(t, 9_000);
    const importing = `import in.jsonl --storage ${url}`;
    for (const ended of await Promise.all(
      [importing, importing].map((line) => here.begin(line).ended),
    ))
      assert.deepEqual([ended.code, messagesOf(ended)], [0, '']);
    await here.prints(
      importing,
      /^0 pets added to postgres:.*; 9000 of in\.jsonl were already there\n$/,
    );
    assert.deepEqual(await namesIn(url), namesTo(9_000));
  });

  test('F11 imports only the new pets if the file has grown', async (t) => {
    const url = await newDatabase();
    const here = folderWith(t, 9_000);
    const all = here.read('in.jsonl');
    const importing = `import in.jsonl --storage ${url}`;
    for (const [count, added] of [
      [3_001, 3_001],
      [3_002, 1],
      [9_000, 5_998],
      [3_001, 0],
      [9_000, 0],
    ] as const) {
      here.write('in.jsonl', all.split('\n').slice(0, count).join('\n'));
      await here.prints(importing, new RegExp(`^${added} pets? added`));
      assert.deepEqual(await namesIn(url), namesTo(Math.max(count, (await namesIn(url)).length)));
    }

    // Concurrent imports of both files add their common beginning once.
    const both = await newDatabase();
    here.write('in.jsonl', all);
    here.write('grown.jsonl', `${all}{"name":"last","categoryId":1}\n`);
    const imports = ['in.jsonl', 'grown.jsonl'].map((file) =>
      here.begin(`import ${file} --storage ${both}`),
    );
    for (const { ended } of imports) assert.equal((await ended).code, 0);
    const names = await namesIn(both);
    const repeated = names.length - 9_001;
    assert.ok(repeated >= 0 && repeated < 2_000, `${names.length}`);
  });

  test('F11 an import ends if its place went back, as after a failover that lost pets', async (t) => {
    const url = await newDatabase();
    await query(
      url,
      `CREATE FUNCTION lag() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.place = least(NEW.place, 5); RETURN NEW; END $$;
       CREATE TRIGGER lagging BEFORE UPDATE ON petstore_imports FOR EACH ROW EXECUTE FUNCTION lag()`,
    );
    const { code, stderr } = await folderWith(t, 5_000).command(`import in.jsonl --storage ${url}`);
    assert.equal(code, 3);
    assert.match(
      stderr,
      /^At least 5 of 5000 pets were added, then: The storage has lost pets of this import\./m,
    );
    const names = await namesIn(url);
    assert.deepEqual(names, namesTo(names.length));
    assert.ok(names.length < 5_000);
  });

  test('F12 seeds an empty database once if several servers start', async (t) => {
    const url = await newDatabase();
    const seeded = await Promise.all(
      Array.from({ length: 6 }, () => seedPostgres(url, draftsOf(300), silent)),
    );
    assert.equal(seeded.filter((isSeeded) => isSeeded).length, 1);
    assert.deepEqual(await namesIn(url), namesTo(300));
    const raced = await newDatabase();
    const here = folderWith(t, 2);
    const env = { PETSTORE_SEED: 'in.jsonl', PETSTORE_STORAGE: raced };
    const servers = await Promise.all([1, 2, 3].map(() => here.start('', env)));
    for (const server of servers) {
      const pets = await (await server.get('/v1/pets')).text();
      assert.equal(pets, '[{"id":1,"name":"0","categoryId":1},{"id":2,"name":"1","categoryId":1}]');
    }
  });

  test('F12 adds nothing if a trigger drops a pet of the seed or of a copy', async () => {
    const url = await newDatabase();
    await dropPet2(url);
    const dropped = { ...unusable, message: /2 rows kept of 3/ };
    await assert.rejects(seedPostgres(url, draftsOf(3), silent), dropped);
    const target = await postgresTarget(url);
    await assert.rejects(target.adopt([pet(1), pet(2), pet(3)]), dropped);
    await target.close();
    await expectStored(url, 0);
  });

  test('F12 adds nothing if the seed fails at its last pet', async () => {
    const url = await newDatabase();
    await query(
      url,
      "ALTER TABLE petstore_pets ADD CHECK (convert_from(json, 'UTF8') NOT LIKE '%\"299\"%')",
    );
    await assert.rejects(seedPostgres(url, draftsOf(300), silent), unusable);
    assert.deepEqual(await namesIn(url), []);
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT petstore_pets_json_check');
    assert.equal(await seedPostgres(url, draftsOf(300), silent), true);
  });
});
