// Tests that the lists of mutants fit src, so that `make mutants` and `make mutants-fixed` can run.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/process.js';
import { fixedFaults } from './fixed.js';
import { mustKill, mutantOf, testsOf } from './mutants.js';
import { ruleFaults } from './rule-faults.js';
import { unchanged } from './unchanged.js';

test('rule-faults.ts has a fault for each rule of the contract, in the order of the numbers', () => {
  const contract = readFileSync(join(root, 'docs/contract.md'), 'utf8');
  assert.deepEqual(
    ruleFaults.map(({ rule }) => rule),
    Array.from(contract.matchAll(/^\| ([SCF][0-9]+) \|/gm), ([, number]) => number),
  );
});

test('each fixed fault changes one place of src, and names a test file', () => {
  for (const fault of fixedFaults) {
    assert.doesNotThrow(() => mutantOf(fault), fault.harm);
    assert.ok(existsSync(join(root, 'test', `${fault.test}.test.ts`)), fault.harm);
  }
});

test('no two fixed faults have the same description', () => {
  const harms = fixedFaults.map(({ harm }) => harm);
  assert.deepEqual(harms, [...new Set(harms)]);
});

test('each change of unchanged.ts changes one place of src', () => {
  for (const change of unchanged) assert.doesNotThrow(() => mutantOf(change), change.text);
});

test('testsOf names the tests of each folder of src', () => {
  const folders = readdirSync(join(root, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  assert.deepEqual(Object.keys(testsOf).sort(), ['contract', ...folders].sort());
  for (const each of new Set(Object.values(testsOf).flat())) {
    const path = each.includes('/') ? `${each}.test.ts` : each;
    assert.ok(existsSync(join(root, 'test', path)), path);
  }
});

test('mustKill leaves out the tests that `make test` leaves out', () => {
  assert.equal(mustKill('conformance', 'conformance/verify.test.js'), true);
  assert.equal(mustKill('conformance', 'conformance/all-rules/part-1.test.js'), false);
});
