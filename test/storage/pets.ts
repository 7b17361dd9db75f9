/** Pets to insert into any storage, and what tests expect of the storage. */
import assert from 'node:assert/strict';
import type { PetStorage } from '../../dist/index.js';

export const rex = { name: 'Rex', categoryId: 5n, status: 'available' } as const;
export const tom = { name: 'Tom', categoryId: 7n } as const;

const failure = (code: string) => ({ name: 'PetstoreError', code });
export const unavailable = failure('unavailable');
export const unusable = failure('storage_unusable');
export const damaged = failure('storage_damaged');
export const inUse = failure('storage_in_use');
export const mismatch = failure('idempotency_mismatch');
export const inFlight = failure('idempotency_in_flight');

/** Inserts a pet for each of these ids, one after the other, and expects the id. */
export async function expectAdded(storage: PetStorage, ...ids: readonly bigint[]): Promise<void> {
  for (const id of ids) assert.deepEqual(await storage.insert(rex), { id, ...rex });
}

/** Expects that the storage refuses an insert as unavailable. */
export function expectRefused(storage: PetStorage): Promise<void> {
  return assert.rejects(storage.insert(rex), unavailable);
}

/** True if a storage is ready. Any error but `unavailable` fails the test. */
export async function isReady(storage: PetStorage): Promise<boolean> {
  try {
    await storage.ready?.();
    return true;
  } catch (error) {
    assert.equal(Object(error).code, unavailable.code);
    return false;
  }
}

/** Expects that a storage is not ready. */
export async function expectUnready(storage: PetStorage): Promise<void> {
  assert.equal(await isReady(storage), false);
}

/** Returns the names of up to a hundred pets. */
export const namesOf = async (storage: PetStorage): Promise<readonly string[]> =>
  (await storage.list({ limit: 100 })).map(({ name }) => name);

/** Returns the ids of up to a hundred pets above `after`. */
export const idsOf = async (storage: PetStorage, after = 0n): Promise<readonly number[]> =>
  (await storage.list({ limit: 100, after })).map(({ id }) => Number(id));
