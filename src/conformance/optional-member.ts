/** Registers the tests of a member that a storage may lack. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PetStorage } from '../index.js';
import type { OpenStorage } from './storage-tester.js';

/** A storage that has an optional member. */
export type StorageWith<Member extends keyof PetStorage> = PetStorage &
  Required<Pick<PetStorage, Member>>;

/** Checks by the names of their tests. A check throws if a storage fails it. */
export type StorageChecks<Member extends keyof PetStorage> = Readonly<
  Record<string, (storage: StorageWith<Member>) => Promise<void>>
>;

/**
 * Registers one test with a subtest for each check, which gets a new storage. If the storage lacks
 * the member, the test fails with one line and runs no check.
 */
export function testMember<Member extends keyof PetStorage>(
  name: string,
  member: Member,
  open: OpenStorage,
  checks: StorageChecks<Member>,
): void {
  const hasMember = (storage: PetStorage): storage is StorageWith<Member> =>
    storage[member] !== undefined;

  test(name, async (t) => {
    const first = await open();
    await first.close();
    assert.ok(hasMember(first), `the storage has no ${member}: leave this suite out`);

    for (const [checkName, check] of Object.entries(checks))
      await t.test(checkName, async (subtest) => {
        const storage = await open();
        subtest.after(() => storage.close());

        assert.ok(hasMember(storage), `the storage has no ${member}`);
        await check(storage);
      });
  });
}
