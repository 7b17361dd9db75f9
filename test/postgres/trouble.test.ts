// What a database answers besides "stored" and "refused": PANIC after a commit, triggers, rights,
// locks, damage. Each is told truly, harms nobody else, and is over once it is over.
import assert from 'node:assert/strict';
import { before, describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { atEnd } from '../support/at-end.js';
import { toByteString, type PetStorage } from '../../dist/index.js';
import { migratePostgres, postgresStorage, type PostgresPool } from '../../dist/postgres/index.js';
import { insertOnce, onceOf } from '../storage/once.js';
import {
  hold,
  newDatabase,
  newSchemaAt,
  ownUrl,
  query,
  tablesVersion,
  withOptions,
  withoutDatabase,
  withoutServer,
} from './database.js';
import { TcpProxy } from './proxy.js';
import { until } from '../support/waiting.js';

const rex = { name: 'Rex', categoryId: 1n };
const unavailable = { name: 'PetstoreError', code: 'unavailable' };

interface Scene {
  readonly url: string;
  readonly storage: PetStorage;
  /** Level and message of each line. */
  readonly logged: string[];
}

async function scene(t: TestContext, url?: string, maxConnections = 10): Promise<Scene> {
  const database = url ?? (await newDatabase());
  const logged: string[] = [];
  const storage = await postgresStorage(database, {
    log: (level, message) => logged.push(`${level} ${message}`),
    maxConnections,
  });
  atEnd(t, () => storage.close());
  return { url: database, storage, logged };
}

async function idsIn(url: string): Promise<readonly number[]> {
  return (await query(url, 'SELECT id FROM petstore_pets ORDER BY id')).map(({ id }) => Number(id));
}

/**
 * Asserts that the log told of an outage and its end in turns, the last one over: an end is steady
 * for a second.
 */
async function assertToldInTurns(
  logged: readonly string[],
  what: string,
  since: number,
): Promise<void> {
  await until('the end to be told', () => logged.length % 2 === 0);
  for (const [index, line] of logged.entries())
    assert.equal(
      line,
      index % 2 === 0 ? `error the database cannot ${what}` : `info the database can ${what} again`,
    );
  const seconds = Math.ceil((performance.now() - since) / 1_000);
  assert.ok(
    logged.length > 0 && logged.length <= 2 * seconds,
    `${logged.length} lines in ${seconds} s`,
  );
}

/** A function for triggers that does this. */
async function trigger(url: string, body: string, when: string): Promise<void> {
  await query(
    url,
    `CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} END $$`,
  );
  await query(url, `CREATE TRIGGER meddling ${when} EXECUTE FUNCTION meddle()`);
}

async function isReady(storage: PetStorage): Promise<boolean> {
  return storage.ready === undefined
    ? true
    : storage.ready().then(
        () => true,
        () => false,
      );
}

describe('what became of a batch', { skip: withoutDatabase() }, () => {
  for (const severity of ['PANIC', 'FATAL', 'PANIK']) {
    test(`a ${severity} (53100) after the commit: the animals are found, and their number is not given again`, async (t) => {
      const url = await newDatabase();
      const { hostname, port } = new URL(url);
      const proxy = await TcpProxy.start(Number(port || 5432), hostname);
      atEnd(t, () => proxy.close());
      const { storage } = await scene(t, proxy.urlFor(url));
      assert.equal((await storage.insert(rex)).id, 1n);
      proxy.fault = { S: severity, C: '53100', M: 'full' };
      const names = ['a', 'b'];
      const first = Promise.all(names.map((name) => storage.insert({ name, categoryId: 1n })));
      await until('a fault', () => proxy.repliesLost > 0);
      proxy.fault = undefined;
      assert.deepEqual(
        await first,
        names.map((name, index) => ({ id: BigInt(index + 2), name, categoryId: 1n })),
      );
      assert.deepEqual(await storage.insert({ name: 'c', categoryId: 1n }), {
        id: 4n,
        name: 'c',
        categoryId: 1n,
      });
      assert.deepEqual((await storage.get(4n))?.name, 'c');
      assert.deepEqual(await idsIn(url), [1, 2, 3, 4]);
    });
  }

  test('an ERROR in the language of the server: refused, nothing is there, and the next add works', async (t) => {
    const url = await newDatabase();
    const { hostname, port } = new URL(url);
    const proxy = await TcpProxy.start(Number(port || 5432), hostname);
    atEnd(t, () => proxy.close());
    const { storage } = await scene(t, proxy.urlFor(url));
    await query(url, 'ALTER TABLE petstore_pets ADD CONSTRAINT none CHECK (id > 1)');
    const before = proxy.accepted;
    proxy.translated = ['ERROR', 'FEHL!'];
    await assert.rejects(storage.insert(rex), unavailable);
    assert.ok(proxy.accepted > before, 'it costs a connection');
    await assert.rejects(Promise.all([storage.insert(rex), storage.insert(rex)]), unavailable);
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT none');
    assert.equal((await storage.insert(rex)).id, 1n);
    assert.deepEqual(await idsIn(url), [1]);
  });

  test('a trigger that warns: found, and answered as stored', async (t) => {
    const { url, storage } = await scene(t);
    await trigger(
      url,
      "RAISE WARNING 'hm'; RETURN NULL;",
      'AFTER INSERT ON petstore_pets FOR EACH ROW',
    );
    assert.deepEqual([(await storage.insert(rex)).id, (await storage.insert(rex)).id], [1n, 2n]);
    assert.deepEqual(await idsIn(url), [1, 2]);
  });

  test('a trigger that warns of writers, whom the search for an outcome writes to as well: answered as stored', async (t) => {
    const { url, storage } = await scene(t);
    await trigger(
      url,
      "RAISE WARNING 'audited'; RETURN NEW;",
      'BEFORE INSERT OR UPDATE ON petstore_writers FOR EACH ROW',
    );
    assert.deepEqual([(await storage.insert(rex)).id, (await storage.insert(rex)).id], [1n, 2n]);
    assert.deepEqual(await idsIn(url), [1, 2]);
  });

  for (const [table, when] of [
    ['petstore_pets', 'INSERT'],
    ['petstore_idempotency', 'INSERT'],
    ['petstore_counters', 'UPDATE'],
    ['petstore_writers', 'INSERT OR UPDATE'],
  ] as const) {
    test(`a trigger on ${table} that keeps nothing: refused, and nothing is half there`, async (t) => {
      const { url, storage } = await scene(t);
      await trigger(url, 'RETURN NULL;', `BEFORE ${when} ON ${table} FOR EACH ROW`);
      await assert.rejects(insertOnce(storage, rex, onceOf('a')), unavailable);
      assert.equal(await isReady(storage), false);
      await query(url, `DROP TRIGGER meddling ON ${table}`);
      assert.deepEqual((await insertOnce(storage, rex, onceOf('a'))).id, 1n);
      assert.deepEqual(await idsIn(url), [1]);
    });
  }

  test('a null that is not for a key, and a missing counter: refused at once, few statements, told once', async (t) => {
    const { url, storage, logged } = await scene(t);
    assert.equal((await storage.insert(rex)).id, 1n);
    const calls = async (): Promise<number> =>
      Number((await query(url, 'SELECT last_value FROM calls'))[0]?.['last_value'] ?? 0);
    await query(url, 'CREATE SEQUENCE calls');
    await trigger(
      url,
      "PERFORM nextval('calls'); NEW.json = NULL; RETURN NEW;",
      'BEFORE INSERT ON petstore_pets FOR EACH ROW',
    );
    for (let count = 0; count < 3; count++) await assert.rejects(storage.insert(rex), unavailable);
    assert.equal(await calls(), 3, 'each is tried once');
    await query(url, 'DROP TRIGGER meddling ON petstore_pets');
    await query(url, "DELETE FROM petstore_counters WHERE name = 'pets'");
    for (let count = 0; count < 3; count++) await assert.rejects(storage.insert(rex), unavailable);
    assert.deepEqual(await query(url, 'SELECT count(*) AS writers FROM petstore_writers'), [
      { writers: '1' },
    ]);
    assert.deepEqual(logged, ['error the database cannot be written to']);
  });

  for (const [what, body] of [
    ['divides by zero', 'PERFORM 1 / 0; RETURN NEW;'],
    ['raises a serialization failure', "RAISE 'no' USING ERRCODE = '40001';"],
  ] as const) {
    test(`a trigger that ${what}: refused and told, and not ready until it is gone`, async (t) => {
      const { url, storage, logged } = await scene(t);
      await trigger(url, body, 'BEFORE INSERT ON petstore_pets FOR EACH ROW');
      await assert.rejects(storage.insert(rex), unavailable);
      assert.deepEqual(logged, ['error the database cannot be written to']);
      assert.equal(await isReady(storage), false);
      await query(url, 'DROP TRIGGER meddling ON petstore_pets');
      assert.equal(await isReady(storage), true);
      assert.equal((await storage.insert(rex)).id, 1n);
    });
  }

  test('a trigger that keeps no change of a writer: refused, and no add makes a writer of its own', async (t) => {
    const { url, storage, logged } = await scene(t);
    assert.equal((await storage.insert(rex)).id, 1n);
    await trigger(url, 'RETURN NULL;', 'BEFORE UPDATE ON petstore_writers FOR EACH ROW');
    for (let count = 0; count < 3; count++) await assert.rejects(storage.insert(rex), unavailable);
    assert.deepEqual(await query(url, 'SELECT count(*) AS writers FROM petstore_writers'), [
      { writers: '1' },
    ]);
    assert.deepEqual(logged, ['error the database cannot be written to']);
    await query(url, 'DROP TRIGGER meddling ON petstore_writers');
    assert.equal((await storage.insert(rex)).id, 2n);
  });

  test('array_nulls=off: an animal without a status has none, and no key is made of it', async (t) => {
    const { url, storage } = await scene(t, withOptions(await newDatabase(), '-carray_nulls=off'));
    await Promise.all([storage.insert(rex), insertOnce(storage, rex, onceOf('a'))]);
    assert.deepEqual(await query(url, 'SELECT status FROM petstore_pets'), [
      { status: null },
      { status: null },
    ]);
    assert.deepEqual(await query(url, 'SELECT count(*) AS keys FROM petstore_idempotency'), [
      { keys: '1' },
    ]);
  });
});

describe('/readyz before anything has failed', { skip: withoutServer() }, () => {
  const troubles: readonly (readonly [what: string, break_: string, mend: string])[] = [
    [
      'no right to read',
      'REVOKE SELECT ON petstore_pets FROM looking',
      'GRANT SELECT ON petstore_pets TO looking',
    ],
    [
      'no right to read the texts',
      'REVOKE SELECT ON petstore_pets FROM looking; GRANT SELECT (id, status) ON petstore_pets TO looking',
      'GRANT SELECT ON petstore_pets TO looking',
    ],
    [
      'no right to add',
      'REVOKE INSERT ON petstore_pets FROM looking',
      'GRANT INSERT ON petstore_pets TO looking',
    ],
    [
      'no right to add with a key',
      'REVOKE INSERT ON petstore_idempotency FROM looking',
      'GRANT INSERT ON petstore_idempotency TO looking',
    ],
    [
      'a table that is renamed',
      'ALTER TABLE petstore_pets RENAME TO petstore_gone',
      'ALTER TABLE petstore_gone RENAME TO petstore_pets',
    ],
    [
      'keys that are renamed',
      'ALTER TABLE petstore_idempotency RENAME TO petstore_gone',
      'ALTER TABLE petstore_gone RENAME TO petstore_idempotency',
    ],
  ];
  test('it is 200 only while animals can be read and added, with a key too', async (t) => {
    const url = await newSchemaAt(await ownUrl());
    await migratePostgres(url);
    const schema = (await query(url, 'SELECT current_schema() AS name'))[0]?.['name'];
    await query(
      url,
      `CREATE ROLE looking LOGIN; GRANT USAGE ON SCHEMA ${String(schema)} TO looking`,
    );
    await query(
      url,
      `GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ${String(schema)} TO looking`,
    );
    const { storage } = await scene(t, Object.assign(new URL(url), { username: 'looking' }).href);
    assert.equal(await isReady(storage), true);
    for (const [what, break_, mend] of troubles) {
      await query(url, break_);
      assert.equal(await isReady(storage), false, what);
      await query(url, mend);
      // Sessions from before may have planned with what is gone.
      await until(`${what} to be over`, () => isReady(storage));
    }
    assert.deepEqual(await idsIn(url), []);
  });

  test('a table that somebody holds: not ready, each statement is sent once, and no session ends for it', async (t) => {
    const url = await newDatabase();
    const pool = new pg.Pool({ connectionString: url, max: 4, connectionTimeoutMillis: 30_000 });
    atEnd(t, () => pool.end());
    const asked: string[] = [];
    let connected = 0;
    pool.on('connect', (client) => {
      connected++;
      const ask = client.query.bind(client);
      client.query = (...args: unknown[]) => {
        asked.push(Object(args[0]).text);
        return Reflect.apply(ask, client, args);
      };
    });
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    atEnd(t, () => holder.end());
    await holder.query('BEGIN; LOCK TABLE petstore_pets IN ACCESS EXCLUSIVE MODE');
    const before = asked.length;
    const outcomes = await Promise.allSettled([
      storage.get(1n),
      insertOnce(storage, rex, onceOf('a')),
      storage.ready?.(),
    ]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'rejected', 'rejected'],
    );
    const ofPets = asked.slice(before).filter((text) => text.includes('petstore_pets'));
    assert.equal(ofPets.length, new Set(ofPets).size, 'none is sent again');
    const sessions = connected;
    await holder.query('COMMIT');
    assert.equal(await storage.get(1n), undefined);
    await storage.ready?.();
    assert.equal(connected, sessions, 'those that waited go on');
  });
});

describe('/readyz after a failed add', { skip: withoutDatabase() }, () => {
  const troubles: Readonly<Record<string, readonly [string, string]>> = {
    'a failing trigger': [
      "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$; CREATE TRIGGER failing BEFORE INSERT ON petstore_pets FOR EACH ROW EXECUTE FUNCTION fail()",
      'DROP TRIGGER failing ON petstore_pets',
    ],
    'a table that is renamed': [
      'ALTER TABLE petstore_pets RENAME TO petstore_gone',
      'ALTER TABLE petstore_gone RENAME TO petstore_pets',
    ],
    'a counter that is set back': [
      'UPDATE petstore_counters SET last_id = 0',
      'UPDATE petstore_counters SET last_id = 1',
    ],
    'a constraint': [
      'ALTER TABLE petstore_pets ADD CONSTRAINT none CHECK (id < 2)',
      'ALTER TABLE petstore_pets DROP CONSTRAINT none',
    ],
  };
  for (const [what, [break_, mend]] of Object.entries(troubles)) {
    test(`${what}: not ready until an add would work again`, async (t) => {
      const { url, storage } = await scene(t);
      assert.equal((await storage.insert(rex)).id, 1n);
      await query(url, break_);
      await assert.rejects(storage.insert(rex), unavailable);
      for (let count = 0; count < 3; count++) assert.equal(await isReady(storage), false);
      await query(url, mend);
      assert.equal(await isReady(storage), true);
      assert.deepEqual(await idsIn(url), [1], 'what is tried leaves nothing');
      assert.equal((await storage.insert(rex)).id, 2n, 'and no id out');
    });
  }

  test('a constraint that some animals break makes no server unready: what was stored last is proof', async (t) => {
    const { url, storage } = await scene(t);
    await query(
      url,
      `ALTER TABLE petstore_pets ADD CONSTRAINT named CHECK (convert_from(json, 'UTF8')::jsonb ->> 'name' <> '')`,
    );
    await assert.rejects(storage.insert({ name: '', categoryId: 1n }), unavailable);
    assert.equal(await isReady(storage), false, 'nothing else is known to work');
    assert.equal(
      (await storage.insert({ name: "O'Neil \\ ü", categoryId: 1n, status: 'sold' })).id,
      1n,
    );
    await assert.rejects(storage.insert({ name: '', categoryId: 1n }), unavailable);
    assert.equal(await isReady(storage), true);
    assert.deepEqual(await idsIn(url), [1]);
  });

  test('an add without a key is no proof for those with one', async (t) => {
    const { url, storage } = await scene(t);
    await query(url, 'ALTER TABLE petstore_idempotency ADD CONSTRAINT none CHECK (pet_id < 1)');
    await assert.rejects(insertOnce(storage, rex, onceOf('a')), unavailable);
    assert.equal((await storage.insert(rex)).id, 1n);
    assert.equal(await isReady(storage), false);
    await query(url, 'ALTER TABLE petstore_idempotency DROP CONSTRAINT none');
    assert.equal(await isReady(storage), true);
    assert.deepEqual(
      await query(url, 'SELECT key FROM petstore_idempotency'),
      [],
      'what is tried leaves nothing',
    );
  });

  test('the proof is not an animal without a name, which a constraint may forbid', async (t) => {
    const { url, storage } = await scene(t);
    await query(
      url,
      `ALTER TABLE petstore_pets ADD CONSTRAINT named CHECK (convert_from(json, 'UTF8')::jsonb ->> 'name' <> '')`,
    );
    await query(url, 'ALTER TABLE petstore_pets ADD CONSTRAINT none CHECK (id < 1)');
    await assert.rejects(storage.insert(rex), unavailable);
    assert.equal(await isReady(storage), false);
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT none');
    assert.equal(await isReady(storage), true);
  });

  test('a counter that somebody holds: not ready while it is held', async (t) => {
    const { url, storage } = await scene(t);
    const release = await hold(t, url);
    await assert.rejects(storage.insert(rex), unavailable);
    assert.equal(await isReady(storage), false);
    await release();
    assert.equal(await isReady(storage), true);
    assert.equal((await storage.insert(rex)).id, 1n);
  });
});

describe('sessions', { skip: withoutServer() }, () => {
  /**
   * Of a server of our own, whose settings may change, its administrator's URL and that of a role
   * that serves.
   */
  let url: string;
  let served: string;
  before(async () => {
    url = await ownUrl();
    await query(url, 'CREATE ROLE serving LOGIN; CREATE ROLE weak; GRANT weak TO serving');
    await migratePostgres(url);
    await query(url, 'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO serving');
    served = Object.assign(new URL(url), { username: 'serving' }).href;
  });

  /** Makes each add take longer than such limits, which are long enough for a session to begin. */
  const slow = `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
    CREATE TRIGGER slow BEFORE INSERT ON petstore_pets FOR EACH STATEMENT EXECUTE FUNCTION slow()`;
  const changes: Readonly<Record<string, readonly [string, string]>> = {
    search_path: [
      'ALTER ROLE serving SET search_path = nowhere',
      'ALTER ROLE serving RESET search_path',
    ],
    statement_timeout: [
      `ALTER ROLE serving SET statement_timeout = 10; ${slow}`,
      'ALTER ROLE serving RESET statement_timeout; DROP FUNCTION slow CASCADE',
    ],
    lock_timeout: [
      `ALTER ROLE serving SET lock_timeout = 10; ${slow}`,
      'ALTER ROLE serving RESET lock_timeout; DROP FUNCTION slow CASCADE',
    ],
    default_transaction_read_only: [
      'ALTER ROLE serving SET default_transaction_read_only = on',
      'ALTER ROLE serving RESET default_transaction_read_only',
    ],
    rights: ['ALTER ROLE serving SET role = weak', 'ALTER ROLE serving RESET role'],
    'the type of a column': [
      'ALTER TABLE petstore_pets ALTER COLUMN id TYPE numeric',
      'ALTER TABLE petstore_pets ALTER COLUMN id TYPE int8',
    ],
  };
  for (const [what, [change, mend]] of Object.entries(changes)) {
    test(`${what}: what was changed and came right works within seconds, though every session is in use`, async (t) => {
      const { storage } = await scene(t, served, 2);
      await storage.insert(rex);
      await query(url, change);
      await query(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'",
      );
      // So that all sessions are of the change, and none is idle until its pool ends it. Nobody
      // asks whether it is ready, which would renew those that only read.
      const isOver = { value: false };
      const another = await postgresStorage(url);
      const using = Promise.all([
        ...[0, 1, 2, 3].map(async () => {
          while (!isOver.value) {
            await Promise.allSettled([
              storage.list({ limit: 1 }),
              storage.get(1n),
              storage.insert(rex),
            ]);
            await sleep(5);
          }
        }),
        // Somebody has the counter nearly all the time.
        (async () => {
          while (!isOver.value) await another.insert(rex).catch(() => undefined);
        })(),
      ]);
      atEnd(t, async () => {
        isOver.value = true;
        await using;
        await another.close();
      });
      await sleep(500);
      await query(url, mend);
      const since = performance.now();
      for (let worked = 0; worked < 10; ) {
        const outcomes = await Promise.allSettled([
          storage.list({ limit: 1 }),
          storage.get(1n),
          storage.insert(rex),
        ]);
        worked = outcomes.every(({ status }) => status === 'fulfilled') ? worked + 1 : 0;
        assert.ok(performance.now() - since < 20_000, 'all of it works, again and again');
      }
      await storage.ready?.();
    });
  }

  test('for what stays wrong they are renewed once a second, not for each failure', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 2,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    let connected = 0;
    pool.on('connect', () => connected++);
    await pool.query('ALTER TABLE petstore_pets RENAME TO petstore_gone');
    const since = performance.now();
    let failures = 0;
    for (; performance.now() - since < 1_500; failures++) {
      await assert.rejects(storage.get(1n), unavailable);
      // It fails at once: without a breath this would keep a processor busy.
      await sleep(5);
    }
    const seconds = Math.ceil((performance.now() - since) / 1_000);
    assert.ok(failures > 20, `only ${failures} failures`);
    assert.ok(
      connected > 0 && connected <= 2 * seconds,
      `${connected} connections in ${seconds} s`,
    );
  });
});

describe('a failing statement among others', { skip: withoutDatabase() }, () => {
  test('drops no connection, and the log has one line a state', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 4,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    let connected = 0;
    pool.on('connect', () => connected++);
    const logged: string[] = [];
    const storage = await postgresStorage(pool, {
      log: (level, message) => logged.push(`${level} ${message}`),
    });
    atEnd(t, () => storage.close());
    for (let id = 1; id <= 20; id++) await storage.insert({ name: String(id), categoryId: 1n });
    // Index pages and all else are sound; to read this one is an ERROR of class XX, as of a damaged
    // block.
    await pool.query(`CREATE FUNCTION damaged(bytea) RETURNS bytea LANGUAGE plpgsql AS
      $$ BEGIN RAISE 'invalid page in block 7' USING ERRCODE = 'XX001'; END $$`);
    await pool.query('ALTER TABLE petstore_pets RENAME TO petstore_real');
    await pool.query(
      `CREATE VIEW petstore_pets AS SELECT id, status, CASE WHEN id = 7 THEN damaged(json) ELSE json END AS json FROM petstore_real`,
    );
    await pool.query(`CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN INSERT INTO petstore_real VALUES (NEW.id, NEW.status, NEW.json); RETURN NEW; END $$`);
    await pool.query(
      'CREATE TRIGGER passing INSTEAD OF INSERT ON petstore_pets FOR EACH ROW EXECUTE FUNCTION pass()',
    );
    const before = connected;
    const since = performance.now();
    for (let count = 0; count < 50; count++) {
      await assert.rejects(storage.get(7n), unavailable);
      await storage.insert(rex);
      assert.equal((await storage.get(8n))?.name, '8');
    }
    assert.ok(connected - before <= 4, `${connected - before} connections were made anew`);
    await assertToldInTurns(logged, 'be read', since);
  });

  test('each outage and each end of one has its line, however soon it follows', async (t) => {
    const { url, storage, logged } = await scene(t);
    const since = performance.now();
    for (let outages = 1; outages <= 2; outages++) {
      await query(url, 'ALTER TABLE petstore_pets RENAME TO petstore_gone');
      await assert.rejects(storage.get(1n), unavailable);
      assert.equal(logged.length, 2 * outages - 1);
      await query(url, 'ALTER TABLE petstore_gone RENAME TO petstore_pets');
      assert.equal(await storage.get(1n), undefined);
      await assertToldInTurns(logged, 'be read', since);
    }
    assert.equal(logged.length, 4);
  });

  test('only a stored batch says that the database can be written to', async (t) => {
    const { url, storage, logged } = await scene(t);
    const since = performance.now();
    await query(url, 'ALTER TABLE petstore_pets ADD CONSTRAINT odd CHECK (id % 2 = 1)');
    for (let count = 0; count < 5; count++) {
      await Promise.allSettled([storage.insert(rex), storage.insert(rex)]);
      await isReady(storage);
    }
    assert.deepEqual(logged, ['error the database cannot be written to']);
    for (let count = 0; count < 5; count++) {
      await Promise.allSettled([storage.insert(rex)]);
      await query(url, 'UPDATE petstore_counters SET last_id = last_id + 1');
      await Promise.allSettled([storage.insert(rex), storage.insert(rex)]);
    }
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT odd');
    await storage.insert(rex);
    await assertToldInTurns(logged, 'be written to', since);
  });
});

test('a read whose connection is lost after a second is answered, and not sent again', async (t) => {
  let asked = 0;
  let isLost = false;
  const client: Awaited<ReturnType<PostgresPool['connect']>> = {
    query: async ({ text }) => {
      if (text.includes('petstore_schema'))
        return { rows: [{ version: toByteString(String(tablesVersion)) }] };
      if (!isLost || text.includes('set_config')) return { rows: [] };
      asked++;
      await sleep(1_001);
      throw new Error('Connection terminated unexpectedly');
    },
    release: () => undefined,
    on: () => undefined,
    removeListener: () => undefined,
  };
  const pool: PostgresPool = {
    connect: async () => ({ ...client }),
    end: async () => undefined,
    options: { connectionTimeoutMillis: 2_000 },
    on: () => undefined,
    removeListener: () => undefined,
  };
  const storage = await postgresStorage(pool);
  atEnd(t, () => storage.close());
  isLost = true;
  await assert.rejects(storage.get(1n), unavailable);
  assert.equal(asked, 1);
});

describe('a storage on a pool of the caller', { skip: withoutDatabase() }, () => {
  test('leaves no listener behind on pool, client or stream, and hears of none in vain', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 5,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    const clients = new Set<pg.PoolClient>();
    pool.on('connect', (client) => clients.add(client));
    // One that is older than the storage.
    await pool.query('SELECT 1');
    const counts = (): readonly unknown[] =>
      [...clients].map((client) =>
        [client, client.connection.stream].map((emitter) =>
          ['error', 'end', 'notice', 'data'].map((event) => emitter.listenerCount(event)),
        ),
      );
    const connect = async (): Promise<void> => {
      const all = await Promise.all(Array.from({ length: 5 }, () => pool.connect()));
      for (const client of all) client.release();
    };
    await connect();
    const [before, listening] = [
      counts(),
      pool.eventNames().map((name) => pool.listenerCount(name)),
    ];
    for (let round = 0; round < 12; round++) {
      const storage = await postgresStorage(pool);
      await Promise.all([
        storage.insert(rex),
        storage.get(1n),
        storage.list({ limit: 1 }),
        storage.ready?.(),
      ]);
      await storage.close();
    }
    assert.deepEqual(counts(), before);
    assert.deepEqual(
      pool.eventNames().map((name) => pool.listenerCount(name)),
      listening,
    );
  });

  for (const end of ['answered', 'lost']) {
    test(`reads that are under way when it closes and are ${end}: that harms nobody, and leaves no listener behind`, async (t) => {
      const url = await newDatabase();
      const { hostname, port } = new URL(url);
      const proxy = await TcpProxy.start(Number(port || 5432), hostname);
      atEnd(t, () => proxy.close());
      const pool = new pg.Pool({
        connectionString: proxy.urlFor(url),
        max: 1,
        connectionTimeoutMillis: 30_000,
      });
      pool.on('error', () => undefined);
      atEnd(t, () => pool.end());
      const client = await pool.connect();
      const counts = (): readonly number[] =>
        ['error', 'end', 'notice'].map((event) => client.listenerCount(event));
      client.release();
      const before = counts();
      const storage = await postgresStorage(pool);
      assert.equal((await storage.insert(rex)).id, 1n);
      const holder = new pg.Client({ connectionString: url });
      await holder.connect();
      atEnd(t, () => holder.end());
      await holder.query('BEGIN; LOCK TABLE petstore_pets');
      const first = storage.get(1n);
      await until('a read that waits', async () => {
        const { rows } = await holder.query(
          "SELECT 1 FROM pg_locks WHERE relation = 'petstore_pets'::regclass AND NOT granted",
        );
        return rows.length > 0;
      });
      // It waits for the connection.
      const reads = [first, storage.list({ limit: 1 })];
      const closing = storage.close();
      await assert.rejects(async () => storage.get(1n), unavailable);
      if (end === 'lost') proxy.mode = 'closed';
      else await holder.query('ROLLBACK');
      const statuses = (await Promise.allSettled(reads)).map(({ status }) => status);
      assert.deepEqual(
        statuses,
        reads.map(() => (end === 'lost' ? 'rejected' : 'fulfilled')),
      );
      await closing;
      if (end === 'answered') assert.deepEqual(counts(), before);
      assert.equal(pool.listenerCount('connect'), 0);
    });
  }
});

describe('long animals', { skip: withoutDatabase() }, () => {
  test('a page of them is cut in the database, and the next goes on', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 2,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    let longest = 0;
    pool.on('connect', (client) => {
      let bytes = 0;
      client.connection.stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        longest = Math.max(longest, bytes);
      });
      client.connection.on('readyForQuery', () => (bytes = 0));
    });
    await pool.query(`INSERT INTO petstore_pets
      SELECT id, 'sold', convert_to('{"id":' || id || ',"name":"' || repeat('x', 6000000) || '","categoryId":1}', 'UTF8')
      FROM generate_series(1, 12) AS id`);
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    const ids: number[] = [];
    let after: bigint | undefined = 0n;
    for (let pages = 0; after !== undefined; pages++) {
      assert.ok(pages < 12);
      const page: { readonly texts: readonly string[]; readonly next?: bigint } | undefined =
        await storage.texts?.list({ limit: 100, after, status: 'sold' });
      ids.push(...(page?.texts ?? []).map((text) => Number(/^\{"id":(\d+),/.exec(text)?.[1])));
      after = page?.next;
    }
    assert.deepEqual(
      ids,
      Array.from({ length: 12 }, (_, index) => index + 1),
    );
    assert.ok(longest < 32 * 2 ** 20, `${longest} bytes came for one page`);
  });

  test('a page goes on after an animal that was rewritten by hand', async (t) => {
    const { url, storage } = await scene(t);
    await Promise.all([storage.insert(rex), storage.insert(rex)]);
    const rewrite = (json: string) =>
      query(url, "UPDATE petstore_pets SET json = convert_to($1::text, 'UTF8') WHERE id = 1", [
        json,
      ]);
    for (const byHand of [
      '{ "id" : 1, "name": "Tom", "categoryId": 1 }',
      '{"name":"Tom","id":1,"categoryId":1}',
    ]) {
      await rewrite(byHand);
      assert.deepEqual(await storage.texts?.list({ limit: 1 }), { texts: [byHand], next: 1n });
      assert.equal((await storage.texts?.list({ limit: 2 }))?.texts.length, 2);
    }
  });

  test('a page whose last text says the id of another is damage, and leads neither back nor over others', async (t) => {
    const { url, storage } = await scene(t);
    for (let count = 0; count < 4; count++) await storage.insert(rex);
    const text = (id: number) => `{"id":${id},"name":"Tom","categoryId":1}`;
    for (const id of [1, 2, 9]) {
      await query(
        url,
        "UPDATE petstore_pets SET json = convert_to($1::text, 'UTF8') WHERE id = 3",
        [text(id)],
      );
      await assert.rejects(async () => storage.texts?.list({ limit: 2, after: 1n }), {
        code: 'storage_damaged',
        message: `The text of record 3 says the id ${id}.`,
      });
    }
    await query(url, "UPDATE petstore_pets SET json = convert_to($1::text, 'UTF8') WHERE id = 3", [
      text(3),
    ]);
    assert.equal((await storage.texts?.list({ limit: 2, after: 1n }))?.next, 3n);
  });

  test('of a key that was used with another body no animal comes, and of one with the same it does', async (t) => {
    const pool = new pg.Pool({ connectionString: await newDatabase(), max: 2 });
    atEnd(t, () => pool.end());
    let bytes = 0;
    pool.on('connect', (client) =>
      client.connection.stream.on('data', (chunk: Buffer) => (bytes += chunk.length)),
    );
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    const long = { name: 'x'.repeat(2 ** 20), categoryId: 1n };
    const keys = ['a', 'b', 'c'];
    await Promise.all(keys.map((key) => insertOnce(storage, long, onceOf(key))));
    bytes = 0;
    const others = keys.map((key) => insertOnce(storage, rex, onceOf(key, 'other')));
    for (const other of await Promise.allSettled(others)) assert.equal(other.status, 'rejected');
    assert.ok(bytes < 2 ** 16, `${bytes} bytes came for three keys`);
    assert.deepEqual(await insertOnce(storage, long, onceOf('b')), { id: 2n, ...long });
  });

  test('a query against the rules is a TypeError', async (t) => {
    const { storage } = await scene(t);
    for (const query of [
      {},
      { limit: 0 },
      { limit: NaN },
      { limit: 1.5 },
      { limit: 1, after: 1 },
    ]) {
      for (const list of [storage.list, storage.texts?.list])
        await assert.rejects(
          async () => Reflect.apply(list ?? assert.fail, storage, [query]),
          TypeError,
        );
    }
    // No text of a caller's comes into a statement.
    const odd = { limit: 1, status: "sold' OR true --" };
    assert.deepEqual(await Reflect.apply(storage.list, storage, [odd]), []);
    assert.deepEqual(await storage.list({ limit: 1e300 }), []);
  });
});
