/** Makes the mutants of the folders that store and serve pets, by Stryker. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from '../support/process.js';
import { mutantsOf, type Place } from './stryker.js';

/** A change of one place of src. */
export interface Mutant {
  /** The path of the file below src. */
  readonly file: string;
  /** The folder of src; `contract` for src itself. */
  readonly folder: string;
  readonly mutator: string;
  /** The offsets of the replaced text, in characters: its first, and the one after its last. */
  readonly from: number;
  readonly to: number;
  readonly original: string;
  readonly replacement: string;
}

/** A change that was written by hand. */
export interface Change {
  /** The path of the file below src. */
  readonly file: string;
  /** The replaced text, which must occur exactly once in the file. */
  readonly text: string;
  readonly becomes: string;
}

/** The folders and files of test whose tests must kill the mutants of each folder of src. */
export const testsOf: Readonly<Record<string, readonly string[]>> = {
  contract: ['http', 'storage', 'plugins', 'standalone', 'torture'],
  service: ['http', 'storage', 'plugins', 'standalone', 'torture'],
  http: ['http', 'plugins', 'standalone'],
  engine: ['storage', 'http', 'torture', 'standalone'],
  memory: ['storage', 'http', 'plugins', 'torture'],
  journal: ['storage', 'standalone', 'torture'],
  file: ['storage', 'standalone', 'torture'],
  postgres: ['postgres'],
  plugins: ['plugins', 'http', 'standalone'],
  cli: ['standalone', 'postgres', 'conformance/verify'],
  conformance: ['conformance', 'storage'],
};

const texts = new Map<string, string>();

/** Returns a file of src as it was at its first use. */
function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(join(root, 'src', file), 'utf8');
  texts.set(file, text);
  return text;
}

/** Returns the changed text of a mutant's file. */
export function mutatedText({ file, from, to, replacement }: Mutant): string {
  const text = textOf(file);
  return text.slice(0, from) + replacement + text.slice(to);
}

/**
 * True if the tests of a folder of src include a test file, such as `http/tls.test.js`. Excludes
 * files in deeper folders, as `make test` does, because they take too long.
 */
export function mustKill(folder: string, testFile: string): boolean {
  return (testsOf[folder] ?? []).some((each) =>
    each.includes('/') ? testFile === `${each}.test.js` : dirname(testFile) === each,
  );
}

/** The files that are not mutated: the entry of the process, and a module that the build replaces. */
const omitted = ['server.ts', 'plugins/page/page-files.ts'];

/** Returns all mutants of Stryker, in the order of the source. */
export async function makeMutants(): Promise<readonly Mutant[]> {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !omitted.includes(name))
    .sort();
  const mutants = await mutantsOf(
    files.map((name) => ({ name, content: textOf(name), mutate: true })),
  );
  return mutants.map(({ fileName: file, mutatorName: mutator, location, replacement }): Mutant => {
    const text = textOf(file);
    const [from, to] = [offsetOf(text, location.start), offsetOf(text, location.end)];
    return mutantAt(file, mutator, from, to, replacement);
  });
}

/** Converts a change to a mutant. @throws Error if its text does not occur once in its file */
export function mutantOf({ file, text, becomes }: Change): Mutant {
  const from = textOf(file).indexOf(text);
  if (textOf(file).split(text).length !== 2)
    throw new Error(`this text must occur once in src/${file}: ${text}`);
  return mutantAt(file, 'ByHand', from, from + text.length, becomes);
}

function mutantAt(
  file: string,
  mutator: string,
  from: number,
  to: number,
  replacement: string,
): Mutant {
  const original = textOf(file).slice(from, to);
  return { file, folder: folderOf(file), mutator, from, to, original, replacement };
}

function folderOf(file: string): string {
  return file.includes('/') ? file.replace(/\/.*/, '') : 'contract';
}

export function offsetOf(text: string, { line, column }: Place): number {
  const before = text.split('\n').slice(0, line);
  return before.reduce((sum, each) => sum + each.length + 1, column);
}

/** Describes a mutant in one line. */
export function lineOf({ file, from, mutator, original, replacement }: Mutant): string {
  const before = textOf(file).slice(0, from).split('\n');
  const place = `${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
  const inLine = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 200);
  return `src/${file}:${place} ${mutator}: ${inLine(original)} => ${inLine(replacement)}`;
}
