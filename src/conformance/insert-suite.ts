/** Tests of `insert`. */
import assert from 'node:assert/strict';
import type { PetDraft } from '../index.js';
import { int64Limits, numberedDrafts, storedPets, rex, type TestWith } from './storage-tester.js';

const categories = [...int64Limits, 2n ** 53n + 1n, 0n].map(
  (categoryId): PetDraft => ({ name: 'Tom', categoryId }),
);
const names = [
  '',
  ' ',
  '\u0000',
  '"\\/\b\n\u2028',
  'Tüm',
  '猫',
  '🐈',
  '\uFEFF',
  '\uFFFF',
  'x'.repeat(70_000),
];
const edgeCases = [...categories, ...names.map((name) => ({ ...rex, name }))];

/** Registers the tests of `insert`. */
export function testInsert(testWith: TestWith): void {
  testWith('insert returns the whole pet, and get and list find it', [], async (storage) => {
    const pet = { id: 1n, ...rex };

    await storage.ready?.();
    assert.deepEqual(await storage.insert(rex), pet);
    assert.deepEqual(await storage.get(1n), pet);
    assert.deepEqual(await storage.list({ limit: 20 }), [pet]);
    assert.equal(storage.size ?? 1, 1);
  });

  testWith(
    'insert keeps any int64 and any text exactly, and adds no status',
    edgeCases,
    async (storage) => {
      for (const [at, pet] of storedPets(edgeCases).entries())
        assert.deepEqual(await storage.get(BigInt(at + 1)), pet);
      assert.deepEqual(await storage.list({ limit: 99 }), storedPets(edgeCases));
    },
  );

  testWith(
    'insert assigns the ids 1, 2, 3 … in the order of the calls, also to concurrent calls',
    [],
    async (storage) => {
      const drafts = numberedDrafts(300);
      const pets = storedPets(drafts);

      assert.deepEqual(await Promise.all(drafts.map((draft) => storage.insert(draft))), pets);
      assert.deepEqual(await storage.list({ limit: 300 }), pets);
    },
  );

  testWith(
    'insert rejects an invalid draft with a TypeError and stores nothing',
    [rex],
    async (storage) => {
      const wrong = [
        { name: 5 },
        { name: '\ud800' },
        { categoryId: 1 },
        { categoryId: 2n ** 63n },
        { status: 'gone' },
      ];
      for (const draft of [null, {}, ...wrong.map((member) => ({ ...rex, ...member }))])
        await assert.rejects(storage.insert(draft as PetDraft), TypeError);

      assert.deepEqual(await storage.list({ limit: 5 }), storedPets([rex]));
      assert.equal((await storage.insert(rex)).id, 2n);
    },
  );
}
