// Tests that `verify` finds each wrong petstore of the folder servers at its own number alone.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listRules } from '../../dist/conformance/index.js';
import { root } from '../support/process.js';
import { key, startPlain } from './servers/plain-petstore.js';
import { subtlePetstores } from './servers/subtle-petstores.js';
import { withTables } from './servers/table.js';
import { wrongPetstores } from './servers/wrong-petstores.js';
import { slowProxy, wrongProxies } from './servers/wrong-proxies.js';
import { verdictsOf } from './verdicts.js';

test('docs/verify.md has the tables of the servers', () => {
  const document = readFileSync(join(root, 'docs/verify.md'), 'utf8');
  assert.equal(document, withTables(document), 'run test/conformance/servers/table.ts');
});

test('each rule of verify has a wrong server', () => {
  const found = new Set([
    ...[...wrongPetstores, ...subtlePetstores].map(({ number }) => number),
    ...[...wrongProxies, slowProxy].map(([number]) => number),
  ]);
  const rules = listRules({ slow: true }).map(({ number }) => number);
  assert.deepEqual(
    rules.filter((number) => !found.has(number)),
    [],
  );
});

for (const { number, does, level, make } of [...wrongPetstores, ...subtlePetstores])
  test(`verify fails only ${number} on a petstore that ${does}`, async (t) => {
    const verdicts = await verdictsOf(await startPlain(t, make()), level);
    // A SHOULD of HTTP is a warning; Node's parser does not know every method (C18).
    const failed = verdicts.filter(
      (each) => each.outcome === 'failed' || (each.outcome === 'warned' && each.number !== 'C18'),
    );
    assert.deepEqual(
      failed.map((each) => each.number),
      [number],
      JSON.stringify(
        failed.map(({ failure }) => [failure?.sent, failure?.came, failure?.expected]),
      ),
    );
    for (const { number: other, reason } of verdicts.filter(({ outcome }) => outcome === 'untried'))
      assert.equal(reason, `depends on ${number}, which is broken`, other);
    assert.ok(!JSON.stringify(verdicts).includes(key), 'the verdicts contain the key');
  });
