/** Tests that `verify` finds wrong servers. */
import { test } from 'node:test';
import { emptyStores, filledStores, proxies, type WrongServer } from './servers/wrong-servers.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

/** The beginnings of `does` of the servers that `verify` finds only if it checks other rules too. */
const foundWithOthers = [
  'caches filtered lists',
  'filters after it has limited the list',
  'sends JSON that is cut off',
  'gives requests at the same time one id',
  'does not store each seventh pet',
  'begins with the id 1 again after 256 pets',
  'loses one of two pets that are added at once',
  'forgets all but the last 50 pets at their URLs',
];

/**
 * Tests that `verify` finds each server. Checks the broken rule alone where that is enough, because
 * all rules take ten times as long.
 */
export function testBrokenRules(servers: readonly WrongServer[]): void {
  for (const { number, does, level, start } of servers) {
    const isAlone = !foundWithOthers.some((each) => does.startsWith(each));
    const fails = isAlone ? 'fails' : 'fails only';
    test(`verify ${fails} ${number} on a server that ${does}`, async (t) => {
      const options = { level, ...(isAlone && { only: [number] }) };
      assertBreaksOnly(await verdictsOf(await start(t), options), number);
    });
  }
}

/** The number of files that share the tests of all rules. */
export const parts = 4;

/** Tests all rules on every fourth server, beginning with that of `part`, from 1. */
export function testAllRules(part: number): void {
  const servers = [...emptyStores, ...filledStores, ...proxies];
  for (const [index, { number, does, level, start }] of servers.entries())
    if (index % parts === part - 1)
      test(`verify fails only ${number} on a server that ${does}`, async (t) => {
        assertBreaksOnly(await verdictsOf(await start(t), { level }), number);
      });
}
