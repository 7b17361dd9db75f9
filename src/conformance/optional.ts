/** How the suites of what a storage may have beside its animals are run: keys and records. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PetStorage } from '../index.js';

/** A storage that has a member which others may lack. */
export type Having<Member extends keyof PetStorage> = PetStorage &
  Required<Pick<PetStorage, Member>>;

/** What holds, a sentence each, and what throws where it does not hold of a new storage. */
export type StorageRules<Member extends keyof PetStorage> = Readonly<
  Record<string, (storage: Having<Member>) => Promise<void>>
>;

/**
 * Registers one test, each rule in it with a storage of its own. Where the first storage lacks the
 * member, the test fails in one line and tries no rule.
 */
export function testMember<Member extends keyof PetStorage>(
  what: string,
  member: Member,
  open: () => PetStorage | Promise<PetStorage>,
  rules: StorageRules<Member>,
): void {
  const hasMember = (storage: PetStorage): storage is Having<Member> =>
    storage[member] !== undefined;

  test(what, async (t) => {
    const first = await open();
    await first.close();
    assert.ok(hasMember(first), `the storage has no ${member}: leave this suite out`);

    for (const [sentence, keep] of Object.entries(rules))
      await t.test(sentence, async (own) => {
        const storage = await open();
        own.after(() => storage.close());

        assert.ok(hasMember(storage), `the storage has no ${member}`);
        await keep(storage);
      });
  });
}
