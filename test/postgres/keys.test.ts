// Expired idempotency keys, which servers delete.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { migratePostgres } from '../../dist/postgres/index.js';
import { until } from '../support/waiting.js';
import {
  newDatabase,
  newSchemaAt,
  ownUrl,
  query,
  withoutDatabase,
  withoutServer,
} from './database.js';
import {
  addOnce,
  dayMs,
  expectAddedOnce,
  hold,
  insertOnce,
  intercept,
  linesOf,
  onceOf,
  open,
  openLogged,
  openNew,
  poolOf,
  rex,
} from './scene.js';

const hourMs = 3_600_000;

/** Adds uses of keys that ended `ageMs` ago. */
const addUses = (count: number, ageMs: number) => `INSERT INTO petstore_idempotency
  SELECT '${ageMs}-' || n, 'body', 1000 * extract(epoch FROM now())::int8 - ${ageMs} - n, 1
  FROM generate_series(1, ${count}) AS n`;

describe('expired idempotency keys', { skip: withoutDatabase(), concurrency: true }, () => {
  test('C57 servers delete expired keys in small batches, one server at a time', async (t) => {
    const url = await newDatabase();
    const sql = (statement: string) => linesOf(url, statement);
    await sql(addUses(2_000, 2 * dayMs));
    await sql(addUses(2, dayMs + hourMs));
    await sql(addUses(10, dayMs - hourMs));
    // Expired for less than the hour by which clocks may differ.
    await sql(addUses(1, dayMs + 0.9 * hourMs));
    // A key from the future, as after a clock that was set back, and one of now.
    await sql(addUses(5, -dayMs));
    // The lease of a server that has ended.
    await sql(`INSERT INTO petstore_leases SELECT 'idempotency', gen_random_uuid(),
      1000 * extract(epoch FROM now())::int8 - 1`);
    // A batch of another server is using this key again.
    const release = await hold(
      t,
      url,
      `SELECT * FROM petstore_idempotency WHERE key = '${2 * dayMs}-7' FOR UPDATE`,
    );

    let most = 0;
    let now = 0;
    const deleted: number[] = [];
    const servers = new Set<number>();
    for (const server of [0, 1, 2]) {
      const pool = await poolOf(t, { url });
      intercept(pool, async ({ text }, send) => {
        if (!text.includes('DELETE FROM')) return send();
        most = Math.max(most, ++now);
        const result = await send().finally(() => now--);
        const count = Number(result.rows[0].deleted);
        if (count > 0) servers.add(server);
        deleted.push(count);
        return result;
      });
      const storage = await open(t, pool);
      const at = Date.now();
      await insertOnce(storage, rex, onceOf(`new-${server}`, rex.name, at));
    }
    await until('a batch that is not full', () =>
      deleted.some((count) => count > 0 && count < Math.max(...deleted)),
    );
    assert.equal(await sql(countOfKeys), '20');
    await release();
    assert.equal(servers.size, 1, 'one server has the lease');
    assert.ok(Math.max(...deleted) <= 500, 'batches are small');
    assert.ok(most <= 3);
  });

  test('C73 keys that are valid by the clock of the requests are not deleted', async (t) => {
    const { url, sql, storage } = await openNew(t);
    // The clock of this petstore stands in the past.
    const at = Date.now() - 30 * dayMs;
    await insertOnce(storage, rex, onceOf('a', rex.name, at));
    // This one's is ahead, so that its first key has expired by it alone.
    const ahead = await open(t, url);
    await addOnce(ahead, 'b', rex, Date.now());
    await addOnce(ahead, 'c', rex, Date.now() + 3 * dayMs);
    await sql(addUses(1, 60 * dayMs));
    await until('the deletion', async () => (await sql(countOfKeys)) === '3');
    await expectAddedOnce(storage, 1n, 'a', rex, at);
    await expectAddedOnce(ahead, 2n, 'b', rex, Date.now());
  });

  test('C57 a key that is used while it is deleted adds one pet', async (t) => {
    const { url, sql, storage } = await openNew(t);
    await addOnce(storage, 'a', rex, Date.now());
    await sql(`UPDATE petstore_idempotency SET sent_at = sent_at - ${2 * dayMs}`);
    const release = await hold(t, url, 'DELETE FROM petstore_idempotency');
    const adding = addOnce(storage, 'a', rex, Date.now());
    await release();
    assert.equal(await adding, 2n);
    await expectAddedOnce(storage, 2n, 'a', rex, Date.now());
  });
});

describe('expired keys without the privilege to delete', { skip: withoutServer() }, () => {
  test('a server without the privilege DELETE logs once which grant is missing, and keeps serving', async (t) => {
    const admin = await newSchemaAt(await ownUrl());
    await migratePostgres(admin);
    const schema = await linesOf(admin, 'SELECT current_schema()');
    await query(
      admin,
      `CREATE ROLE keeping LOGIN; GRANT USAGE ON SCHEMA ${schema} TO keeping;
       GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ${schema} TO keeping`,
    );
    const url = Object.assign(new URL(admin), { username: 'keeping' }).href;
    const { storage, logged } = await openLogged(t, url);
    await until('a warning', () => logged.length > 0);
    assert.deepEqual(logged, [
      'warn expired idempotency keys are not deleted; ' +
        'GRANT DELETE ON petstore_idempotency TO the user of the servers',
    ]);
    await storage.ready?.();
    await addOnce(storage, 'a');
  });
});

const countOfKeys = 'SELECT count(*) FROM petstore_idempotency';
