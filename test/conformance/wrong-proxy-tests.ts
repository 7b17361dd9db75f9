/** Tests that `verify` fails the rule that a proxy breaks and no other rule. */
import { test } from 'node:test';
import { wrongProxies } from './servers/wrong-proxies.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';
import { startWrong } from './wrong-server.js';

/** The number of files that share the tests. Each test takes seconds of the processor. */
export const proxyParts = 3;

/** Tests every third wrong proxy, beginning with that of `part`, from 1. */
export function testWrongProxies(part: number): void {
  for (const [index, [number, does, fault]] of wrongProxies.entries())
    if (index % proxyParts === part - 1)
      test(`verify fails only ${number} on a server that ${does}`, async (t) => {
        assertBreaksOnly(await verdictsOf(await startWrong(t, fault), { level: 'full' }), number);
      });
}
