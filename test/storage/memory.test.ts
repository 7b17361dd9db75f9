import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import '../support/built.js';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import { petsOf, textsOf } from '../../dist/engine/index.js';
import { memoryStorage } from '../../dist/memory/index.js';

describe('memoryStorage keeps', () => {
  testStorage({ open: memoryStorage });
  testInsertOnce({ open: memoryStorage });
  testRecords({ open: memoryStorage });
});

test('memoryStorage is not durable', () => {
  assert.equal(memoryStorage().durable, false);
});

test('a list of animals goes on where a page of texts ends before its limit', async () => {
  const storage = memoryStorage();
  for (let categoryId = 1n; categoryId <= 5n; categoryId++)
    await storage.insert({ name: 'Rex', categoryId });
  const texts = textsOf(storage);
  const { list } = petsOf({
    ...texts,
    list: (query) => texts.list({ ...query, limit: Math.min(2, query.limit) }),
  });
  for (const [limit, after, ids] of [
    [3, 0n, [1n, 2n, 3n]],
    [9, 1n, [2n, 3n, 4n, 5n]],
    [9, 5n, []],
    [1, undefined, [1n]],
  ] as const) {
    assert.deepEqual(
      (await list({ limit, after })).map(({ id }) => id),
      ids,
    );
  }
});
