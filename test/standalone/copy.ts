/**
 * Owns what tests of `petstore copy` have in common: animals that are hard to keep, and what a file
 * has of them.
 */
import { hash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

/**
 * With gaps between the ids, up to the last one, and all that a text can be. Each is as we write
 * it.
 */
export const hardAnimals: readonly string[] = [
  '{"id":1,"name":"","categoryId":0}',
  '{"id":2,"name":"\\u0000\\"\\\\\\n\\u001f\\u007f","categoryId":-9223372036854775808,"status":"sold"}'.replace(
    '\\u007f',
    '\u007f',
  ),
  '{"id":7,"name":"Tüm 猫 🐈 \u2028\uFEFF\uFFFF \'; DROP","categoryId":9223372036854775807,"status":"pending"}',
  `{"id":9007199254740993,"name":"${'x'.repeat(200_000)}","categoryId":9007199254740993}`,
  '{"id":9223372036854775806,"name":"\\u0000","categoryId":1,"status":"available"}',
  '{"id":9223372036854775807,"name":"last","categoryId":1}',
];

/** The text of these lines. */
const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');

/** Writes a storage file as a person may: animals alone, without a commit. */
export function writeAnimals(path: string, animals: readonly string[]): void {
  writeFileSync(path, textOf(animals));
}

/** Such files, for a folder that begins with them. */
export function filesOf(
  animals: Readonly<Record<string, readonly string[]>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(animals).map(([name, lines]) => [name, textOf(lines)]));
}

/** So many animals. */
export function someAnimals(count: number): readonly string[] {
  const statuses = ['', ',"status":"available"', ',"status":"pending"', ',"status":"sold"'];
  return Array.from(
    { length: count },
    (_, index) =>
      `{"id":${index + 1},"name":"Ünï-${index}","categoryId":${index * 7}${statuses[index % 4]}}`,
  );
}

/** The animals of a storage file, as `grep '^{"id":'` finds them. */
export function animalsIn(path: string): readonly string[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{"id":'));
}

/** What `copy` says of animals. */
export function digestOf(animals: readonly string[]): string {
  return hash('sha256', textOf(animals));
}
