/**
 * Checks the arguments of a storage. The functions in front of each storage (pet-storage.ts and
 * plugin-records.ts) call these, so that no storage checks arguments itself.
 */
import { petFields, ruleOf, type PetDraft } from '../pet.js';
import type { IdempotencyKeyUse, PageQuery } from '../storage.js';

/**
 * Checks a program's draft. Returns a copy that has only the fields of the table.
 * @param absent A value that counts as omitted, in addition to undefined.
 * @throws TypeError that names each invalid field and its rule
 */
export function checkDraft(draft: PetDraft, absent?: null): PetDraft {
  if (typeof draft !== 'object' || draft === null) throw new TypeError('a draft must be an object');

  const given: Readonly<Record<string, unknown>> = draft;
  const copy: Record<string, unknown> = {};
  const broken: string[] = [];
  for (const { name, type, isRequired } of petFields) {
    const value = given[name];
    if (type.is(value)) copy[name] = value;
    else if (isRequired || (value !== undefined && value !== absent))
      broken.push(ruleOf(name, type.programRule, isRequired));
  }

  if (broken.length > 0) throw new TypeError(broken.join('; '));

  // The loop has checked every row of the table, which the compiler cannot see.
  return copy as PetDraft;
}

/** Checks a program's query. @throws TypeError that names the member */
export function checkQuery({ limit, after }: PageQuery): void {
  if (!Number.isInteger(limit) || limit < 1)
    throw new TypeError('limit must be an integer of at least 1');
  if (after !== undefined && typeof after !== 'bigint')
    throw new TypeError('after must be a bigint, or be left out');
}

/** The largest time of a use, because a line of the file has room for 15 digits. */
const maxAt = 999_999_999_999_999;

/** Checks the use of an idempotency key. @throws TypeError that names the member */
export function checkKeyUse({ key, body, at }: IdempotencyKeyUse): void {
  const isDigest = (text: unknown) => typeof text === 'string' && /^[0-9a-f]{64}$/.test(text);

  if (!isDigest(key) || !isDigest(body))
    throw new TypeError('key and body must be SHA-256 in lowercase hexadecimal digits');
  if (!Number.isInteger(at) || at < 0 || at > maxAt)
    throw new TypeError(`at must be an integer from 0 to ${maxAt}`);
}
