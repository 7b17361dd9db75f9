/** Tests of `close`. */
import assert from 'node:assert/strict';
import { numberedDrafts, storedPets, rex, unavailable, type TestWith } from './storage-tester.js';

/** Registers the test of `close`. */
export function testClose(testWith: TestWith): void {
  testWith(
    'close finishes inserts in flight and rejects later calls, except further calls of close',
    [],
    async (storage) => {
      const inserts = numberedDrafts(50).map((draft) => storage.insert(draft));
      const closing = [storage.close(), storage.close()];

      assert.deepEqual(await Promise.all(inserts), storedPets(numberedDrafts(50)));
      await Promise.all(closing);
      await storage.close();

      await assert.rejects(storage.ready ? storage.ready() : storage.get(1n), unavailable);
      // A method of `texts` may throw instead of rejecting.
      for (const methods of [storage, storage.texts ?? storage]) {
        await assert.rejects(async () => methods.insert(rex), unavailable);
        await assert.rejects(async () => methods.get(1n), unavailable);
        await assert.rejects(async () => methods.list({ limit: 1 }), unavailable);
      }
    },
  );
}
