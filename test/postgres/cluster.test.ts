// The harness itself: a cluster that comes, crashes, comes back with what it had, and leaves
// nothing.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folderOnDisk } from '../support/in-memory.js';
import { Cluster } from './cluster.js';
import { adminUrl, newSchema, query, withoutDatabase, withoutServer } from './database.js';

test('schemas of one database do not see each other', { skip: withoutDatabase() }, async () => {
  const [one, other] = await Promise.all([newSchema(), newSchema()]);
  await query(one, 'CREATE TABLE only_here (id int8)');
  await assert.rejects(query(other, 'SELECT * FROM only_here'), { code: '42P01' });
  await assert.rejects(query(await adminUrl(), 'SELECT * FROM only_here'), { code: '42P01' });
});

test('a cluster crashes, comes back with what it had, and is gone behind its end', {
  skip: withoutServer(),
}, async () => {
  const cluster = await Cluster.start();
  try {
    await query(cluster.url, 'CREATE TABLE kept (id int8)');
    await cluster.down('SIGKILL');
    await assert.rejects(query(cluster.url, 'SELECT 1'), { code: 'ECONNREFUSED' });
    await cluster.up();
    assert.deepEqual(await query(cluster.url, 'SELECT * FROM kept'), []);
  } finally {
    await cluster.remove();
  }
  assert.ok(!existsSync(cluster.folder));
  await assert.rejects(query(cluster.url, 'SELECT 1'), { code: 'ECONNREFUSED' });
});

test('a cluster that is measured is on a disk, in a folder that goes with it', {
  skip: withoutServer(),
}, async () => {
  const folder = folderOnDisk('petstore-cluster-');
  const cluster = await Cluster.make(folder);
  try {
    assert.ok(existsSync(join(folder, 'data/PG_VERSION')));
  } finally {
    await cluster.remove();
  }
  assert.ok(!existsSync(folder));
});
