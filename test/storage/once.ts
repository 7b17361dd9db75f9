/** Uses of idempotency keys, for tests. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import type { IdempotencyKeyUse, Pet, PetDraft, PetStorage } from '../../dist/index.js';
import { rex } from './pets.js';

export const dayMs = 86_400_000;
/** The default time of a key's use, in milliseconds since the epoch. */
export const usedAt = 1_795_132_800_000;

/** Returns the use of a key with a body, both by short names. */
export function onceOf(key: string, body: string = rex.name, at = usedAt): IdempotencyKeyUse {
  return { key: hash('sha256', key), body: hash('sha256', body), at };
}

/** Calls the storage's `insertOnce`, which must exist. */
export function insertOnce(
  storage: PetStorage,
  draft: PetDraft,
  once: IdempotencyKeyUse,
): Promise<Pet> {
  return storage.insertOnce?.(draft, once) ?? assert.fail('the storage has no insertOnce');
}

/** Inserts a pet with a key and returns its id. The name identifies the body. */
export async function addOnce(
  storage: PetStorage,
  key: string,
  draft: PetDraft = rex,
  at?: number,
): Promise<bigint> {
  return (await insertOnce(storage, draft, onceOf(key, draft.name, at))).id;
}

/** Inserts a pet with a key and expects its id. */
export async function expectAddedOnce(
  storage: PetStorage,
  id: bigint,
  ...use: readonly [key: string, draft?: PetDraft, at?: number]
): Promise<void> {
  assert.equal(await addOnce(storage, ...use), id);
}
