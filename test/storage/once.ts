/** Uses of idempotency keys for tests of what is no part of the suite of every storage. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import type { IdempotencyKeyUse, Pet, PetDraft, PetStorage } from '../../dist/index.js';
import { rex } from './animals.js';

export const dayMs = 86_400_000;
/** When a key is used, unless a test says otherwise. */
export const usedAt = 1_795_132_800_000;

/** A key and a body by short names, at a time. */
export function onceOf(key: string, body: string = rex.name, at = usedAt): IdempotencyKeyUse {
  return { key: hash('sha256', key), body: hash('sha256', body), at };
}

/** The storage's own `insertOnce`, which it must have. */
export function insertOnce(
  storage: PetStorage,
  draft: PetDraft,
  once: IdempotencyKeyUse,
): Promise<Pet> {
  return storage.insertOnce?.(draft, once) ?? assert.fail('it has no insertOnce');
}

/** Adds an animal with a key; an animal of another name is another body. Answers the id. */
export async function addOnce(
  storage: PetStorage,
  key: string,
  draft: PetDraft = rex,
  at?: number,
): Promise<bigint> {
  return (await insertOnce(storage, draft, onceOf(key, draft.name, at))).id;
}

/** Adds an animal with a key, and expects that it has this id. */
export async function expectAddedOnce(
  storage: PetStorage,
  id: bigint,
  ...use: readonly [key: string, draft?: PetDraft, at?: number]
): Promise<void> {
  assert.equal(await addOnce(storage, ...use), id);
}
