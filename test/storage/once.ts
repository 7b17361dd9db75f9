/** Uses of idempotency keys for tests of what is no part of the suite of every storage. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { textsOf } from '../../dist/engine/index.js';
import type { IdempotencyKeyUse, PetDraft, PetStorage, StoredText } from '../../dist/index.js';

export const dayMs = 86_400_000;
export const mismatch = { name: 'PetstoreError', code: 'idempotency_mismatch' };
export const inFlight = { name: 'PetstoreError', code: 'idempotency_in_flight' };

/** A key and a body by short names, at a time. */
export function onceOf(key: string, body = 'body', at = 1_795_132_800_000): IdempotencyKeyUse {
  return { key: hash('sha256', key), body: hash('sha256', body), at };
}

/** The storage's own `insertOnce`, which it must have. */
export function insertOnce(
  storage: PetStorage,
  draft: PetDraft,
  once: IdempotencyKeyUse,
): ReturnType<PetStorage['insert']> {
  return storage.insertOnce?.(draft, once) ?? assert.fail('it has no insertOnce');
}

/** The same in texts, which may be answered or refused at once. */
export async function insertTextOnce(
  storage: PetStorage,
  draft: PetDraft,
  once: IdempotencyKeyUse,
): Promise<StoredText> {
  return textsOf(storage).insertOnce(draft, once);
}
