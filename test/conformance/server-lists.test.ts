// Tests that the lists of wrong servers are complete, and that docs/verify.md has them.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listRules } from '../../dist/conformance/index.js';
import { root } from '../support/process.js';
import { withTables } from './servers/table.js';
import { emptyStores, proxies, slowServers } from './servers/wrong-servers.js';
import { parts } from './wrong-server-tests.js';

test('docs/verify.md has the tables of the servers', () => {
  const document = readFileSync(join(root, 'docs/verify.md'), 'utf8');
  assert.equal(document, withTables(document), 'run test/conformance/servers/table.ts');
});

test('each rule of verify has a wrong server at its lowest level', () => {
  const found = new Set(
    [...emptyStores, ...proxies, ...slowServers].map(({ number, level }) => `${number} ${level}`),
  );
  const rules = listRules({ slow: true }).map(({ number, level }) => `${number} ${level}`);
  assert.deepEqual(
    rules.filter((rule) => !found.has(rule)),
    [],
  );
});

test('each part of the tests of all rules has a file', () => {
  assert.deepEqual(
    readdirSync(join(root, 'test/conformance/all-rules')).toSorted(),
    Array.from({ length: parts }, (_, index) => `part-${index + 1}.test.ts`),
  );
});
