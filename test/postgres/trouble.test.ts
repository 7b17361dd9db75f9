// What a database answers besides "stored" and "refused": PANIC after a commit, triggers, rights,
// locks, damage. Each is told truly, harms nobody else, and is over once it is over.
import assert from 'node:assert/strict';
import type { EventEmitter } from 'node:events';
import { before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { until } from '../support/waiting.js';
import { migratePostgres } from '../../dist/postgres/index.js';
import {
  newDatabase,
  newSchemaAt,
  ownUrl,
  query,
  withOptions,
  withoutDatabase,
  withoutServer,
} from './database.js';
import {
  addOnce,
  answerTo,
  askedOf,
  assertInTurn,
  connectionsOf,
  endSessions,
  expectAdded,
  expectAddedOnce,
  expectRefused,
  expectStored,
  expectUnready,
  hold,
  idIn,
  idsOf,
  insertOnce,
  intercept,
  isReady,
  onceOf,
  open,
  openFar,
  openLogged,
  openNew,
  pagesOf,
  poolOf,
  proxied,
  rex,
  tom,
  unavailable,
  untilWaiting,
} from './scene.js';

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

/** The statements that make trouble, and those that end it. */
type Trouble = readonly [begin: string, mend: string];

/** A trigger of a table. */
function trigger(body: string, when: string, table = 'petstore_pets'): Trouble {
  return [
    `CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} END $$;
     CREATE TRIGGER meddling ${when} ON ${table} FOR EACH ROW EXECUTE FUNCTION meddle()`,
    'DROP FUNCTION meddle CASCADE',
  ];
}

/** A table that has another name. */
function renamed(table: string): Trouble {
  return [
    `ALTER TABLE ${table} RENAME TO petstore_gone`,
    `ALTER TABLE petstore_gone RENAME TO ${table}`,
  ];
}

/** A table that takes no rows but these. */
function checked(condition: string, table = 'petstore_pets'): Trouble {
  return [
    `ALTER TABLE ${table} ADD CONSTRAINT odd CHECK (${condition}) NOT VALID`,
    `ALTER TABLE ${table} DROP CONSTRAINT odd`,
  ];
}

const named = `convert_from(json, 'UTF8')::jsonb ->> 'name' <> ''`;
const nobody = { ...rex, name: '' };

describe('what became of a batch', { skip: withoutDatabase() }, () => {
  for (const severity of ['PANIC', 'FATAL', 'PANIK']) {
    test(`a ${severity} (53100) after the commit: the animals are found, and their number is not given again`, async (t) => {
      const { url, storage, proxy } = await openFar(t);
      await expectAdded(storage, 1n);
      proxy.fault = { S: severity, C: '53100', M: 'full' };
      const adding = Promise.all([storage.insert(rex), storage.insert(tom)]);
      await until('a fault', () => proxy.repliesLost > 0);
      proxy.fault = undefined;
      assert.deepEqual(await adding, [
        { id: 2n, ...rex },
        { id: 3n, ...tom },
      ]);
      await expectAdded(storage, 4n);
      await expectStored(url, 4);
    });
  }

  test('an ERROR in the language of the server: refused, nothing is there, and the next add works', async (t) => {
    const pool = await poolOf(t);
    const connected = connectionsOf(pool);
    intercept(pool, (_statement, send) =>
      send().catch((error) => Promise.reject(Object.assign(error, { severity: 'FEHL!' }))),
    );
    const storage = await open(t, pool);
    const [refuse, mend] = checked('false');
    await pool.query(refuse);
    const before = connected();
    await expectRefused(storage);
    assert.ok(connected() > before, 'it costs a connection');
    await assert.rejects(Promise.all([storage.insert(rex), storage.insert(rex)]), unavailable);
    await pool.query(mend);
    await expectAdded(storage, 1n);
    assert.deepEqual(await idsOf(storage), [1]);
  });

  for (const [of, [warn]] of Object.entries({
    animals: trigger("RAISE WARNING 'hm'; RETURN NULL;", 'AFTER INSERT'),
    'writers, whom the search for an outcome writes to as well': trigger(
      "RAISE WARNING 'hm'; RETURN NEW;",
      'BEFORE INSERT OR UPDATE',
      'petstore_writers',
    ),
  })) {
    test(`a trigger that warns of ${of}: found, and answered as stored`, async (t) => {
      const { url, sql, storage } = await openNew(t);
      await sql(warn);
      await expectAdded(storage, 1n, 2n);
      await expectStored(url, 2);
    });
  }

  const nothing = 'RETURN NULL;';
  const troubles: Readonly<Record<string, Trouble>> = {
    'a trigger that keeps no animal': trigger(nothing, 'BEFORE INSERT'),
    'a trigger that keeps no key': trigger(nothing, 'BEFORE INSERT', 'petstore_idempotency'),
    'a trigger that keeps no count': trigger(nothing, 'BEFORE UPDATE', 'petstore_counters'),
    'a trigger that keeps no writer': trigger(
      nothing,
      'BEFORE INSERT OR UPDATE',
      'petstore_writers',
    ),
    'a trigger that divides by zero': trigger('PERFORM 1 / 0; RETURN NEW;', 'BEFORE INSERT'),
    'a trigger that raises a serialization failure': trigger(
      "RAISE 'no' USING ERRCODE = '40001';",
      'BEFORE INSERT',
    ),
    'a trigger that raises': trigger("RAISE 'no';", 'BEFORE INSERT'),
    'a null that is not for a key': trigger('NEW.json = NULL; RETURN NEW;', 'BEFORE INSERT'),
    'a table that is renamed': renamed('petstore_pets'),
    'a counter that is set back': [
      'UPDATE petstore_counters SET last_id = 0',
      'UPDATE petstore_counters SET last_id = 1',
    ],
    'a missing counter': [
      "DELETE FROM petstore_counters WHERE name = 'pets'",
      "INSERT INTO petstore_counters (name, last_id) VALUES ('pets', 1)",
    ],
    'a constraint': checked('false'),
    'a constraint on keys': checked('false', 'petstore_idempotency'),
  };
  for (const [what, [begin, mend]] of Object.entries(troubles)) {
    test(`${what}: refused and told once, nothing is half there, and not ready until an add would work again`, async (t) => {
      const { url, sql, ...first } = await openNew(t);
      const second = await openLogged(t, url);
      await expectAdded(first.storage, 1n);
      await sql(begin);
      // The second has no writer yet.
      for (const { storage, logged } of [first, second]) {
        await assert.rejects(addOnce(storage, 'a'), unavailable);
        assert.deepEqual(
          logged.filter((line) => line !== 'error the database cannot be read'),
          ['error the database cannot be written to'],
        );
        for (let count = 0; count < 3; count++) await expectUnready(storage);
      }
      await sql(mend);
      for (const { storage } of [first, second]) await storage.ready?.();
      await expectStored(url, 1);
      assert.equal(await sql('SELECT key FROM petstore_idempotency'), '');
      for (const { storage } of [first, second]) await expectAddedOnce(storage, 2n, 'a');
    });
  }

  test('what the database refuses for good is tried once, told once, and makes no writer', async (t) => {
    const { sql, storage, logged } = await openNew(t);
    await expectAdded(storage, 1n);
    await sql('CREATE SEQUENCE calls');
    for (const [begin, mend] of [
      trigger("PERFORM nextval('calls'); NEW.json = NULL; RETURN NEW;", 'BEFORE INSERT'),
      trigger(nothing, 'BEFORE UPDATE', 'petstore_writers'),
    ]) {
      await sql(begin);
      for (let count = 0; count < 3; count++) await expectRefused(storage);
      assert.equal((await storage.get(1n))?.name, 'Rex', 'reads go on');
      await sql(mend);
    }
    assert.equal(await sql('SELECT last_value FROM calls'), '3');
    assert.equal(await sql('SELECT count(*) FROM petstore_writers'), '1');
    assert.deepEqual(logged, ['error the database cannot be written to']);
    await expectAdded(storage, 2n);
  });

  test('array_nulls=off: an animal without a status has none, and no key is made of it', async (t) => {
    const { url, sql } = await openNew(t);
    const storage = await open(t, withOptions(url, '-carray_nulls=off'));
    await Promise.all([storage.insert(tom), addOnce(storage, 'a', tom)]);
    assert.equal(await sql('SELECT DISTINCT status IS NULL FROM petstore_pets'), 'true');
    assert.equal(await sql('SELECT count(*) FROM petstore_idempotency'), '1');
  });
});

describe('/readyz before anything has failed', { skip: withoutServer() }, () => {
  /** Rights that are taken, and given back. */
  const revoked = (right: string, table: string, left = ''): Trouble => [
    `REVOKE ${right} ON ${table} FROM looking; ${left}`,
    `GRANT ${right} ON ${table} TO looking`,
  ];
  const troubles: Readonly<Record<string, Trouble>> = {
    'no right to read': revoked('SELECT', 'petstore_pets'),
    'no right to read the texts': revoked(
      'SELECT',
      'petstore_pets',
      'GRANT SELECT (id, status) ON petstore_pets TO looking',
    ),
    'no right to add': revoked('INSERT', 'petstore_pets'),
    'no right to add with a key': revoked('INSERT', 'petstore_idempotency'),
    'a table that is renamed': renamed('petstore_pets'),
    'keys that are renamed': renamed('petstore_idempotency'),
  };
  test('it is 200 only while animals can be read and added, with a key too', async (t) => {
    const url = await newSchemaAt(await ownUrl());
    await migratePostgres(url);
    const schema = await answerTo(url, 'SELECT current_schema()');
    await query(
      url,
      `CREATE ROLE looking LOGIN; GRANT USAGE ON SCHEMA ${schema} TO looking;
       GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ${schema} TO looking`,
    );
    const storage = await open(t, Object.assign(new URL(url), { username: 'looking' }).href);
    await storage.ready?.();
    for (const [what, [begin, mend]] of Object.entries(troubles)) {
      await query(url, begin);
      await expectUnready(storage);
      await query(url, mend);
      // Sessions from before may have planned with what is gone.
      await until(`${what} to be over`, () => isReady(storage));
    }
    await expectStored(url, 0);
  });

  test('a table that somebody holds: not ready, each statement is sent once, and no session ends for it', async (t) => {
    const url = await newDatabase();
    const pool = await poolOf(t, { url, max: 4 });
    const asked = askedOf(pool);
    const connected = connectionsOf(pool);
    const storage = await open(t, pool);
    const release = await hold(t, url, 'LOCK TABLE petstore_pets IN ACCESS EXCLUSIVE MODE');
    asked.length = 0;
    for (const { status } of await Promise.allSettled([
      storage.get(1n),
      addOnce(storage, 'a'),
      storage.ready?.(),
    ]))
      assert.equal(status, 'rejected');
    const ofPets = asked.map(({ text }) => text).filter((text) => text.includes('petstore_pets'));
    assert.equal(ofPets.length, new Set(ofPets).size, 'none is sent again');
    const sessions = connected();
    await release();
    assert.equal(await storage.get(1n), undefined);
    await storage.ready?.();
    assert.equal(connected(), sessions, 'those that waited go on');
  });
});

describe('/readyz after a failed add', { skip: withoutDatabase() }, () => {
  test('a constraint that some animals break makes no server unready: what was stored last is proof', async (t) => {
    const { url, sql, storage } = await openNew(t);
    await sql(checked(named)[0]);
    await assert.rejects(storage.insert(nobody), unavailable);
    await expectUnready(storage);
    const odd = { ...rex, name: "O'Neil \\ ü" };
    assert.equal((await storage.insert(odd)).id, 1n);
    await assert.rejects(storage.insert(nobody), unavailable);
    await storage.ready?.();
    await expectStored(url, 1);
  });

  test('the proof is not an animal without a name, which a constraint may forbid', async (t) => {
    const { sql, storage } = await openNew(t);
    await sql(`ALTER TABLE petstore_pets ADD CHECK (${named})`);
    const [begin, mend] = checked('false');
    await sql(begin);
    await expectRefused(storage);
    await expectUnready(storage);
    await sql(mend);
    await storage.ready?.();
  });

  test('an add without a key is no proof for those with one', async (t) => {
    const { sql, storage } = await openNew(t);
    await sql(checked('false', 'petstore_idempotency')[0]);
    await assert.rejects(addOnce(storage, 'a'), unavailable);
    await expectAdded(storage, 1n);
    await expectUnready(storage);
  });

  test('a counter that somebody holds: not ready while it is held', async (t) => {
    const { url, storage } = await openNew(t);
    const release = await hold(t, url);
    await expectRefused(storage);
    await expectUnready(storage);
    await release();
    await storage.ready?.();
    await expectAdded(storage, 1n);
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

  /** A setting of the role. A limit of time is long enough for a session to begin, but not to add. */
  const set = (name: string, value: string): Trouble => {
    const [begin, mend] = trigger('PERFORM pg_sleep(0.02); RETURN NEW;', 'BEFORE INSERT');
    const isLimit = name.endsWith('_timeout');
    return [
      `ALTER ROLE serving SET ${name} = ${value}; ${isLimit ? begin : ''}`,
      `ALTER ROLE serving RESET ${name}; ${isLimit ? mend : ''}`,
    ];
  };
  const changes: Readonly<Record<string, Trouble>> = {
    search_path: set('search_path', 'nowhere'),
    statement_timeout: set('statement_timeout', '10'),
    lock_timeout: set('lock_timeout', '10'),
    default_transaction_read_only: set('default_transaction_read_only', 'on'),
    rights: set('role', 'weak'),
    'the type of a column': [
      'ALTER TABLE petstore_pets ALTER COLUMN id TYPE numeric',
      'ALTER TABLE petstore_pets ALTER COLUMN id TYPE int8',
    ],
  };
  for (const [what, [change, mend]] of Object.entries(changes)) {
    test(`${what}: what was changed and came right works within seconds, though every session is in use`, async (t) => {
      const storage = await open(t, served, { maxConnections: 2 });
      await storage.insert(rex);
      await query(url, change);
      await query(url, endSessions);
      // So that all sessions are of the change, and none is idle until its pool ends it. Nobody
      // asks whether it is ready, which would renew those that only read.
      const useAll = () =>
        Promise.allSettled([storage.list({ limit: 1 }), storage.get(1n), storage.insert(rex)]);
      let isOver = false;
      const repeat = async (step: () => Promise<unknown>) => {
        while (!isOver) await step();
      };
      const useOn = () => repeat(() => useAll().then(() => sleep(30)));
      // Somebody has the counter nearly all the time.
      const pool = await poolOf(t, { url, max: 1 });
      const held =
        'SELECT pg_sleep(0.03) FROM (SELECT * FROM petstore_counters FOR UPDATE) AS held';
      const using = [useOn(), useOn(), useOn(), useOn(), repeat(() => pool.query(held))];
      atEnd(t, async () => {
        isOver = true;
        await Promise.all(using);
      });
      await sleep(300);
      await query(url, mend);
      const since = performance.now();
      for (let worked = 0; worked < 10; ) {
        const outcomes = await useAll();
        worked = outcomes.every(({ status }) => status === 'fulfilled') ? worked + 1 : 0;
        assert.ok(performance.now() - since < 20_000, 'all of it works, again and again');
      }
      await storage.ready?.();
    });
  }

  test('for what stays wrong they are renewed once a second, not for each failure', async (t) => {
    const pool = await poolOf(t, { max: 2 });
    const storage = await open(t, pool);
    const connected = connectionsOf(pool);
    await pool.query(renamed('petstore_pets')[0]);
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
      connected() > 0 && connected() <= 2 * seconds,
      `${connected()} connections in ${seconds} s`,
    );
  });
});

describe('a failing statement among others', { skip: withoutDatabase() }, () => {
  test('drops no connection, and the log has one line a state', async (t) => {
    const pool = await poolOf(t, { max: 4 });
    const connected = connectionsOf(pool);
    const { storage, logged } = await openLogged(t, pool);
    for (let id = 1; id <= 20; id++) await storage.insert({ ...rex, name: String(id) });
    // Index pages and all else are sound; to read this one is an ERROR of class XX, as of a damaged
    // block.
    await pool.query(`CREATE FUNCTION damaged(bytea) RETURNS bytea LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'invalid page in block 7' USING ERRCODE = 'XX001'; END $$;
      ALTER TABLE petstore_pets RENAME TO petstore_real;
      CREATE VIEW petstore_pets AS SELECT id, status,
        CASE WHEN id = 7 THEN damaged(json) ELSE json END AS json FROM petstore_real;
      CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO petstore_real VALUES (NEW.id, NEW.status, NEW.json); RETURN NEW; END $$;
      CREATE TRIGGER passing INSTEAD OF INSERT ON petstore_pets FOR EACH ROW EXECUTE FUNCTION pass()`);
    const before = connected();
    const since = performance.now();
    for (let count = 0; count < 50; count++) {
      await assert.rejects(storage.get(7n), unavailable);
      await storage.insert(rex);
      assert.equal((await storage.get(8n))?.name, '8');
    }
    assert.ok(connected() - before <= 4, `${connected() - before} connections were made anew`);
    await assertToldInTurns(logged, 'be read', since);
  });

  test('each outage and each end of one has its line, however soon it follows', async (t) => {
    const { sql, storage, logged } = await openNew(t);
    const [begin, mend] = renamed('petstore_pets');
    const since = performance.now();
    for (const lines of [1, 3]) {
      await sql(begin);
      await assert.rejects(storage.get(1n), unavailable);
      assert.equal(logged.length, lines);
      await sql(mend);
      assert.equal(await storage.get(1n), undefined);
      await assertToldInTurns(logged, 'be read', since);
    }
    assert.equal(logged.length, 4);
  });

  test('only a stored batch says that the database can be written to', async (t) => {
    const { sql, storage, logged } = await openNew(t);
    const since = performance.now();
    const [begin, mend] = checked('id % 2 = 1');
    const insertTwo = () => Promise.allSettled([storage.insert(rex), storage.insert(rex)]);
    await sql(begin);
    for (let count = 0; count < 5; count++) {
      await insertTwo();
      await isReady(storage);
    }
    assert.deepEqual(logged, ['error the database cannot be written to']);
    for (let count = 0; count < 5; count++) {
      await Promise.allSettled([storage.insert(rex)]);
      await sql('UPDATE petstore_counters SET last_id = last_id + 1');
      await insertTwo();
    }
    await sql(mend);
    await storage.insert(rex);
    await assertToldInTurns(logged, 'be written to', since);
  });

  test('a read whose connection is lost after a second is answered, and not sent again', async (t) => {
    const { url, far, proxy } = await proxied(t);
    const pool = await poolOf(t, { url: far });
    const asked = askedOf(pool);
    const storage = await open(t, pool);
    await hold(t, url, 'LOCK TABLE petstore_pets');
    asked.length = 0;
    const reading = assert.rejects(storage.get(1n), unavailable);
    await untilWaiting(url, 1, 'petstore_pets');
    await sleep(1_001);
    proxy.cut();
    await reading;
    assert.equal(asked.length, 1);
  });
});

const events = ['acquire', 'connect', 'data', 'end', 'error', 'notice', 'release', 'remove'];

/** How many listen to each event of a pool, a client or a stream. */
const listenersOf = (...emitters: readonly EventEmitter[]) =>
  emitters.map((emitter) => events.map((event) => emitter.listenerCount(event)));

describe('a storage on a pool of the caller', { skip: withoutDatabase() }, () => {
  test('leaves no listener behind on pool, client or stream, and hears of none in vain', async (t) => {
    const pool = await poolOf(t, { max: 5 });
    // All are older than the storage.
    const clients = await Promise.all(Array.from({ length: 5 }, () => pool.connect()));
    for (const client of clients) client.release();
    const emitters = [pool, ...clients.flatMap((client) => [client, client.connection.stream])];
    const before = listenersOf(...emitters);
    for (let round = 0; round < 12; round++) {
      const storage = await open(t, pool);
      await Promise.all([
        storage.insert(rex),
        storage.get(1n),
        storage.list({ limit: 1 }),
        storage.ready?.(),
      ]);
      await storage.close();
    }
    assert.deepEqual(listenersOf(...emitters), before);
    assert.equal((await pool.query('SELECT id FROM petstore_pets')).rows.length, 12, 'it is open');
  });

  for (const end of ['answered', 'lost']) {
    test(`reads that are under way when it closes and are ${end}: that harms nobody, and leaves no listener behind`, async (t) => {
      const { url, far, proxy } = await proxied(t);
      const pool = await poolOf(t, { url: far, max: 1 });
      const client = await pool.connect();
      client.release();
      const emitters = end === 'lost' ? [pool] : [pool, client, client.connection.stream];
      const before = listenersOf(...emitters);
      const storage = await open(t, pool);
      await expectAdded(storage, 1n);
      const release = await hold(t, url, 'LOCK TABLE petstore_pets');
      const first = storage.get(1n);
      await untilWaiting(url, 1, 'petstore_pets');
      // It waits for the connection.
      const reads = [first, storage.list({ limit: 1 })];
      const closing = storage.close();
      await assert.rejects(async () => storage.get(1n), unavailable);
      if (end === 'lost') proxy.mode = 'closed';
      else await release();
      for (const { status } of await Promise.allSettled(reads))
        assert.equal(status, end === 'lost' ? 'rejected' : 'fulfilled');
      await closing;
      assert.deepEqual(listenersOf(...emitters), before);
    });
  }
});

describe('long animals', { skip: withoutDatabase() }, () => {
  test('a page of them is cut in the database, and the next goes on', async (t) => {
    const { sql, storage, proxy } = await openFar(t);
    await sql(`INSERT INTO petstore_pets
      SELECT id, 'sold', convert_to('{"id":' || id || ',"name":"' || repeat('x', 6000000) || '","categoryId":1}', 'UTF8')
      FROM generate_series(1, 12) AS id`);
    const ids: number[] = [];
    let before = proxy.bytesAnswered;
    for await (const texts of pagesOf(storage, { limit: 100, status: 'sold' })) {
      const bytes = proxy.bytesAnswered - before;
      assert.ok(bytes < 32 * 2 ** 20, `${bytes} bytes came for one page`);
      before += bytes;
      ids.push(...texts.map(idIn));
    }
    assertInTurn(ids, 12);
  });

  test('a page goes on after an animal that was rewritten by hand, and the id of another is damage that leads neither back nor over others', async (t) => {
    const { sql, storage } = await openNew(t);
    await expectAdded(storage, 1n, 2n, 3n, 4n);
    const page = async (json: string) => {
      await sql(`UPDATE petstore_pets SET json = '${json}' WHERE id = 3`);
      return storage.texts?.list({ limit: 2, after: 1n });
    };
    for (const byHand of [
      '{ "id" : 3, "name": "Tom", "categoryId": 1 }',
      '{"name":"Tom","id":3,"categoryId":1}',
    ]) {
      const found = await page(byHand);
      assert.deepEqual([found?.texts[1], found?.next], [byHand, 3n]);
    }
    for (const id of [1, 2, 9])
      await assert.rejects(page(`{"id":${id},"name":"Tom","categoryId":1}`), {
        code: 'storage_damaged',
        message: `The text of record 3 says the id ${id}.`,
      });
  });

  test('of a key that was used with another body no animal comes, and of one with the same it does', async (t) => {
    const { storage, proxy } = await openFar(t);
    const long = { ...rex, name: 'x'.repeat(2 ** 20) };
    const keys = ['a', 'b', 'c'];
    await Promise.all(keys.map((key) => insertOnce(storage, long, onceOf(key))));
    const before = proxy.bytesAnswered;
    const others = keys.map((key) => addOnce(storage, key, tom));
    for (const { status } of await Promise.allSettled(others)) assert.equal(status, 'rejected');
    const bytes = proxy.bytesAnswered - before;
    assert.ok(bytes < 2 ** 16, `${bytes} bytes came for three keys`);
    assert.deepEqual(await insertOnce(storage, long, onceOf('b')), { id: 2n, ...long });
  });

  test('no text of a caller’s comes into a statement', async (t) => {
    const { storage } = await openNew(t);
    const odd = { limit: 1, status: "sold' OR true --" };
    assert.deepEqual(await Reflect.apply(storage.list, storage, [odd]), []);
    assert.deepEqual(await storage.list({ limit: 1e300 }), []);
  });
});
