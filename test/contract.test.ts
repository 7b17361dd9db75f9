// Holds that each number of docs/contract.md is named by a test, and that no test and no comment
// names another.
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
 * The numbers in a text, the ranges C1 to C54 and C1…C58 by their ends. A percent-encoded byte is
 * none.
 */
const numbersIn = (text: string): readonly string[] => text.match(/(?<![%\w])[SCF][0-9]+\b/g) ?? [];

/** The numbers that the contract's tables begin their rows with, in order. */
const numbers = [...textOf('docs/contract.md').matchAll(/^\| ([SCF][0-9]+) \|/gm)].map(
  ([, number]) => number ?? '',
);

test('docs/contract.md has each number of a series once, in order', () => {
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

test('each number of docs/contract.md is named by a test, or is a rule of the suite that our tests run', () => {
  const titles = filesIn('test')
    .filter((file) => file.endsWith('.test.ts') && file !== join('test', 'contract.test.ts'))
    .flatMap((file) => [
      ...textOf(file).matchAll(/\b(?:test|testInFolder|describe)\(\s*(['"`])([\s\S]*?)\1/g),
    ])
    .flatMap(([, , title]) => numbersIn(title ?? ''));
  // The suite for any petstore names its tests by these.
  const rules = filesIn('src/conformance').flatMap((file) =>
    Array.from(textOf(file).matchAll(/^ +number: '(\w+)',$/gm), ([, number = '']) => number),
  );
  assert.deepEqual(
    numbers.filter((number) => !titles.includes(number) && !rules.includes(number)),
    [],
  );
});

test('no test and no comment names a number that docs/contract.md does not have', () => {
  const wrong = [...filesIn('src'), ...filesIn('test')].flatMap((file) =>
    numbersIn(textOf(file))
      .filter((number) => !numbers.includes(number))
      .map((number) => `${file}: ${number}`),
  );
  assert.deepEqual(wrong, []);
});
