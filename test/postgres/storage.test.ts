// The PostgreSQL storage: the contract of every storage, and what is its own.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { postgresStorage } from '../../dist/postgres.js';
import { testStorage } from '../storage/conformance.js';
import { newDatabase, withoutDatabase } from './database.js';

const skip = withoutDatabase();

describe('PostgreSQL', { skip }, () => {
  testStorage('postgresStorage', async () => postgresStorage(await newDatabase()));

  test('a pool of the caller is used and stays open', async () => {
    const pool = new pg.Pool({ connectionString: await newDatabase(), max: 2 });
    const storage = await postgresStorage(pool);
    assert.equal((await storage.insert({ name: 'Rex', categoryId: 1n })).id, 1n);
    await storage.close();
    assert.deepEqual((await pool.query('SELECT last_id FROM petstore_counters')).rows, [{ last_id: '1' }]);
    assert.equal(pool.listenerCount('error'), 0);
    await pool.end();
  });
});
