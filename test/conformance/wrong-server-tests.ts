/** Tests that `verify` finds wrong servers. */
import { test } from 'node:test';
import { emptyStores, filledStores, proxies, type WrongServer } from './servers/wrong-servers.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

/** The servers whose fault shows only beside the checks of other rules. */
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

const nameOf = ({ number, does }: WrongServer) =>
  `verify fails only ${number} on a server that ${does}`;

/** Tests the rule of each server alone, which takes a tenth of a second for most. */
export function testAlone(servers: readonly WrongServer[]): void {
  for (const server of servers) {
    const { number, does, level, start } = server;
    const isAlone = !foundWithOthers.some((each) => does.startsWith(each));
    test(`${nameOf(server)}${isAlone ? ', checked alone' : ''}`, async (t) => {
      const options = { level, ...(isAlone && { only: [number] }) };
      assertBreaksOnly(await verdictsOf(await start(t), options), number);
    });
  }
}

/** The number of files that share the tests of all rules. */
export const parts = 4;

/** Tests all rules on every fourth server, beginning with that of `part`, from 1. */
export function testAllRules(part: number): void {
  for (const [index, server] of [...emptyStores, ...filledStores, ...proxies].entries())
    if (index % parts === part - 1)
      test(nameOf(server), async (t) => {
        const { number, level, start } = server;
        assertBreaksOnly(await verdictsOf(await start(t), { level }), number);
      });
}
