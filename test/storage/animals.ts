/** Animals to add, and what is expected of adding them to any storage. */
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

/** Adds an animal for each of these ids, one after the other, and expects that it gets it. */
export async function expectAdded(storage: PetStorage, ...ids: readonly bigint[]): Promise<void> {
  for (const id of ids) assert.deepEqual(await storage.insert(rex), { id, ...rex });
}

/** Expects that an animal is not added, because the storage is unavailable. */
export function expectRefused(storage: PetStorage): Promise<void> {
  return assert.rejects(storage.insert(rex), unavailable);
}

/** Whether a storage says that it can be used; any other answer than yes and no is a failure. */
export async function isReady(storage: PetStorage): Promise<boolean> {
  try {
    await storage.ready?.();
    return true;
  } catch (error) {
    assert.equal(Object(error).code, unavailable.code);
    return false;
  }
}

/** Expects that a storage says that it cannot be used. */
export async function expectUnready(storage: PetStorage): Promise<void> {
  assert.equal(await isReady(storage), false);
}

/** The names of a hundred animals of a storage, and the ids of as many. */
export const namesOf = async (storage: PetStorage): Promise<readonly string[]> =>
  (await storage.list({ limit: 100 })).map(({ name }) => name);

export const idsOf = async (storage: PetStorage, after = 0n): Promise<readonly number[]> =>
  (await storage.list({ limit: 100, after })).map(({ id }) => Number(id));
