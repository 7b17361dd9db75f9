/** Tests of `insert`. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { petJson, type PetDraft } from '../index.js';
import { int64Limits, numberedDrafts, storedPets, rex, type TestWith } from './storage-tester.js';

const categories = [...int64Limits, 2n ** 53n + 1n, 0n].map(
  (categoryId): PetDraft => ({ name: 'Tom', categoryId }),
);
const names = [
  '',
  ' ',
  '\u0000',
  '"\\/\b\n\u2028',
  '\r\n',
  'Tüm',
  'e\u0301',
  '猫',
  '🐈',
  '\uFEFF',
  '\uFFFF',
  '007',
  'null',
  'a%20b+c',
  '<b>&amp;',
  'x'.repeat(70_000),
];
const edgeCases = [...categories, ...names.map((name) => ({ ...rex, name }))];

/** Registers the tests of `insert`. */
export function testInsert(testWith: TestWith): void {
  testWith('insert returns the whole pet, and get and list find it', [], async (storage) => {
    const pet = { id: 1n, ...rex };
    const draft: { name: string } & PetDraft = { ...rex };

    await storage.ready?.();
    assert.deepEqual(await storage.insert(draft), pet);
    assert.deepEqual(draft, rex, 'insert changed the draft');
    draft.name = 'changed after the insert';
    assert.deepEqual(await storage.get(1n), pet);
    assert.deepEqual(await storage.list({ limit: 20 }), [pet]);
    assert.equal(storage.size ?? 1, 1);
  });

  testWith(
    'insert keeps any int64 and any text exactly, and adds no status',
    [],
    async (storage) => {
      const pets = storedPets(edgeCases);

      const inserted = await Promise.all(edgeCases.map((draft) => storage.insert(draft)));
      assert.deepEqual(inserted, pets);
      for (const pet of pets) {
        assert.deepEqual(await storage.get(pet.id), pet);
        if (storage.texts !== undefined)
          assert.equal(await storage.texts.get(pet.id), petJson(pet.id, pet));
      }
      assert.deepEqual(await storage.list({ limit: 99 }), pets);
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
      assert.equal(storage.size ?? 300, 300);
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
        ...[2n ** 63n, -(2n ** 63n) - 1n].map((categoryId) => ({ categoryId })),
        ...['gone', '', null].map((status) => ({ status })),
      ];
      for (const draft of [null, {}, ...wrong.map((member) => ({ ...rex, ...member }))])
        for (const methods of [storage, storage.texts ?? storage])
          await assert.rejects(
            async () => methods.insert(draft as PetDraft),
            TypeError,
            inspect(draft),
          );

      assert.deepEqual(await storage.list({ limit: 5 }), storedPets([rex]));
      assert.equal((await storage.insert(rex)).id, 2n);
    },
  );
}
