// Tests the plans that a session keeps, and row-level security.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { petStatuses } from '../../dist/index.js';
import { migratePostgres, postgresStorage } from '../../dist/postgres/index.js';
import { notesIn } from '../storage/records.js';
import { newSchemaAt, ownUrl, query, withOptions, withoutServer } from './database.js';
import {
  addOnce,
  expectUnready,
  linesOf,
  open,
  poolOf,
  rex,
  tom,
  unavailable,
  untilRow,
  unusable,
} from './scene.js';

describe('plans that a session keeps', { skip: withoutServer() }, () => {
  test('a statement planned on empty tables uses its index on 300,000 rows', async (t) => {
    const url = await newSchemaAt(await ownUrl());
    await migratePostgres(url);
    const schema = await linesOf(url, 'SELECT current_schema()');
    const tables = ['pets', 'counters', 'writers', 'idempotency', 'records', 'imports'];
    for (const table of tables) {
      await query(url, `ALTER TABLE petstore_${table} SET (autovacuum_enabled = off)`);
      await query(url, `ANALYZE petstore_${table}`);
    }

    // One session, so that each statement keeps its plan; a generic one from the first call on.
    const storage = await open(t, withOptions(url, '-cplan_cache_mode=force_generic_plan'), {
      maxConnections: 1,
    });
    const notes = notesIn(storage);
    const useAll = async () => {
      await addOnce(storage, randomBytes(8).toString('hex'), tom);
      await Promise.all([storage.insert(rex), notes.insert('a')]);
      await addOnce(storage, 'a', tom);
      await Promise.all([storage.get(1n), storage.get(2n), notes.get(1n)]);
      await storage.get(1n);
      for (const status of [undefined, ...petStatuses])
        await storage.list({ limit: 20, ...(status !== undefined && { status }) });
      await notes.list({ limit: 20 });
      await storage.ready?.();
    };
    await useAll();
    const count = 300_000;
    await query(
      url,
      `INSERT INTO petstore_pets SELECT id, CASE WHEN id % 1000 = 0 THEN 'sold' ELSE 'pending' END,
         convert_to('{"id":' || id || ',"name":"x","categoryId":1}', 'UTF8')
       FROM generate_series(1000, ${count}) AS id;
       INSERT INTO petstore_records SELECT 'records.notes', id, convert_to('{"id":' || id || '}', 'UTF8')
       FROM generate_series(1000, ${count}) AS id;
       INSERT INTO petstore_idempotency SELECT 'key' || id, '', 0, 1 FROM generate_series(1, ${count}) AS id;
       INSERT INTO petstore_writers SELECT gen_random_uuid(), 1, 1 FROM generate_series(1, 10000);
       UPDATE petstore_counters SET last_id = ${count}`,
    );
    const scansOf = () =>
      linesOf(
        url,
        `SELECT relname, seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables
         WHERE schemaname = '${schema}' ORDER BY relname`,
      );
    const read = async () =>
      (await scansOf()).split('\n').map((line) => {
        const [table = '', sequential = '', byIndex = ''] = line.split('|');
        return { table, rows: Number(sequential) + Number(byIndex) };
      });

    const before = await read();
    await useAll();
    // A session reports its figures when it ends.
    await storage.close();
    const isEnded = `SELECT 1 FROM pg_stat_activity
      HAVING count(*) FILTER (WHERE application_name = 'petstore') = 0`;
    await untilRow(url, isEnded);
    const after = await read();
    for (const [index, { table, rows }] of after.entries())
      assert.ok(rows - (before[index]?.rows ?? 0) < 2_000, `${table}: ${rows} rows read`);
  });
});

describe('row-level security', { skip: withoutServer() }, () => {
  for (const policy of ['', 'CREATE POLICY few ON petstore_pets USING (id > 5)']) {
    test(`a start refuses tables ${policy === '' ? 'without a policy' : 'with a policy'}`, async (t) => {
      const url = await newSchemaAt(await ownUrl());
      await migratePostgres(url);
      const schema = await linesOf(url, 'SELECT current_schema()');
      const role = `role_${randomBytes(6).toString('hex')}`;
      await query(
        url,
        `CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA ${schema} TO ${role};
         GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA ${schema} TO ${role}`,
      );
      const serving = Object.assign(new URL(url), { username: role }).href;
      const storage = await open(t, serving);
      await storage.insert(rex);

      await query(url, `ALTER TABLE petstore_pets ENABLE ROW LEVEL SECURITY; ${policy}`);
      const refused = { ...unusable, message: /hide rows of petstore_pets .* BYPASSRLS/ };
      for (const database of [serving, await poolOf(t, { url: serving })])
        for (const isSource of [false, true])
          await assert.rejects(postgresStorage(database, { isSource }), refused);
      // A running server does not show an empty list.
      await assert.rejects(storage.list({ limit: 9 }), unavailable);
      await expectUnready(storage);

      await query(url, `ALTER ROLE ${role} BYPASSRLS`);
      assert.equal((await (await open(t, serving)).list({ limit: 9 })).length, 1);
    });
  }
});
