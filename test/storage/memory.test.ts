import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStorage } from '../../build/storage/memory.js';
import { testStorage } from './conformance.js';
import { testInsertOnce } from './once.js';
import { testRecords } from './records.js';

testStorage('memoryStorage', async () => memoryStorage());
testInsertOnce('memoryStorage', async () => memoryStorage());
testRecords('memoryStorage', async () => memoryStorage());

test('memoryStorage is not durable', () => {
  assert.equal(memoryStorage().durable, false);
});
