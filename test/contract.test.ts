// Tests that each rule of docs/contract.md is named by a test, and that no text names another
// number.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import './support/built.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');
const filesIn = (folder: string): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.includes('node_modules'))
    .map((name) => join(folder, name));

/**
 * Returns the rule numbers in a text. Of a range such as C1…C58, these are both ends. A
 * percent-encoded byte is not a number.
 */
const numbersIn = (text: string): readonly string[] => text.match(/(?<![%\w])[SCF][0-9]+\b/g) ?? [];

/** The numbers at the beginning of table rows in the contract, in order. */
const numbers = [...textOf('docs/contract.md').matchAll(/^\| ([SCF][0-9]+) \|/gm)].map(
  ([, number]) => number ?? '',
);

test('docs/contract.md has each number once, in order', () => {
  for (const letter of ['S', 'C', 'F']) {
    const own = numbers
      .filter((number) => number.startsWith(letter))
      .map((number) => Number(number.slice(1)));
    assert.ok(own.length >= 3, letter);
    assert.deepEqual(
      own,
      [...new Set(own)].toSorted((one, other) => one - other),
      letter,
    );
  }
});

test('each number of docs/contract.md is named by a test or by the conformance suite', () => {
  const titles = filesIn('test')
    .filter((file) => file.endsWith('.test.ts') && file !== join('test', 'contract.test.ts'))
    .flatMap((file) => [
      ...textOf(file).matchAll(/\b(?:test|testInFolder|describe)\(\s*(['"`])([\s\S]*?)\1/g),
    ])
    .flatMap(([, , title]) => numbersIn(title ?? ''));
  // The conformance suite names its tests by these numbers.
  const rules = filesIn('src/conformance').flatMap((file) =>
    Array.from(textOf(file).matchAll(/^ +number: '(\w+)',$/gm), ([, number = '']) => number),
  );
  assert.deepEqual(
    numbers.filter((number) => !titles.includes(number) && !rules.includes(number)),
    [],
  );
});

test('no test or comment names a number that docs/contract.md does not have', () => {
  const wrong = [...filesIn('src'), ...filesIn('test')].flatMap((file) =>
    numbersIn(textOf(file))
      .filter((number) => !numbers.includes(number))
      .map((number) => `${file}: ${number}`),
  );
  assert.deepEqual(wrong, []);
});
