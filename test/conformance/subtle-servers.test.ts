// Tests that `verify` finds each petstore of servers/subtle-petstores.ts at its own number alone.
import { test } from 'node:test';
import { startPlain } from './servers/plain-petstore.js';
import { subtlePetstores } from './servers/subtle-petstores.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

for (const { number, does, level, make } of subtlePetstores)
  test(`verify fails only ${number} on a petstore that ${does}`, async (t) => {
    assertBreaksOnly(await verdictsOf(await startPlain(t, make()), { level }), number);
  });
