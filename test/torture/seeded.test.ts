// The faults of R14 are texts of the source: a change that takes one away must say so with the
// tests, not in the torture behind them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ruleNames } from '../http/rule-names.js';
import { faults } from './seeded.js';

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');

test('R14 each seeded fault has its place in the source, and a test of the name that must catch it', () => {
  for (const { name, file, text, test: testFile, caughtBy } of faults) {
    assert.equal(
      read(`src/${file}`).split(text).length - 1,
      1,
      `${name}: src/${file} must say once ${text}`,
    );
    // As far as a name is written out: what it is filled with is known when the test runs.
    const names = [...read(`test/${testFile}`).matchAll(/\btest\(\s*['"`]([^'"`$]+)/g)].map(
      ([, written = '']) => written,
    );
    if (testFile === 'http/conformance.test.ts') names.push(...ruleNames);
    assert.ok(
      names.some((written) => written.startsWith(caughtBy) || caughtBy.startsWith(written)),
      `${name}: no test of test/${testFile} begins with ${caughtBy}`,
    );
  }
});
