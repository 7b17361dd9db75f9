/** Writes and reads storage files for tests of `petstore copy`. */
import { hash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

/** Lines of pets with gaps between the ids, the largest int64, and unusual characters in names. */
export const edgeCasePets: readonly string[] = [
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

const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');

/** Writes a storage file as a person may write one: pets without a commit record. */
export function writePets(path: string, pets: readonly string[]): void {
  writeFileSync(path, textOf(pets));
}

/** Returns the text of a storage file for each name. */
export function filesOf(
  pets: Readonly<Record<string, readonly string[]>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(pets).map(([name, lines]) => [name, textOf(lines)]));
}

/** Returns lines of `count` pets. */
export function somePets(count: number): readonly string[] {
  const statuses = ['', ',"status":"available"', ',"status":"pending"', ',"status":"sold"'];
  return Array.from(
    { length: count },
    (_, index) =>
      `{"id":${index + 1},"name":"Ünï-${index}","categoryId":${index * 7}${statuses[index % 4]}}`,
  );
}

/** Returns the lines of pets, or of records, in a storage file. */
export function petLinesIn(path: string): readonly string[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{"id":'));
}

/** Returns the SHA-256 that `copy` prints for these lines. */
export function digestOf(pets: readonly string[]): string {
  return hash('sha256', textOf(pets));
}
