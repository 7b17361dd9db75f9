// Tests that `verify` finds each petstore of servers/wrong-petstores.ts at its own number alone.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listRules } from '../../dist/conformance/index.js';
import { root } from '../support/process.js';
import { startPlain } from './servers/plain-petstore.js';
import { subtlePetstores } from './servers/subtle-petstores.js';
import { withTables } from './servers/table.js';
import { wrongPetstores } from './servers/wrong-petstores.js';
import { slowProxy, wrongProxies } from './servers/wrong-proxies.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

test('docs/verify.md has the tables of the servers', () => {
  const document = readFileSync(join(root, 'docs/verify.md'), 'utf8');
  assert.equal(document, withTables(document), 'run test/conformance/servers/table.ts');
});

test('each rule of verify has a wrong server at its lowest level', () => {
  const found = new Set([
    ...[...wrongPetstores, ...subtlePetstores].map(({ number, level }) => `${number} ${level}`),
    ...[...wrongProxies, slowProxy].map(([number]) => `${number} full`),
  ]);
  const rules = listRules({ slow: true }).map(({ number, level }) => `${number} ${level}`);
  assert.deepEqual(
    rules.filter((rule) => !found.has(rule)),
    [],
  );
});

for (const { number, does, level, make } of wrongPetstores)
  test(`verify fails only ${number} on a petstore that ${does}`, async (t) => {
    assertBreaksOnly(await verdictsOf(await startPlain(t, make()), { level }), number);
  });
