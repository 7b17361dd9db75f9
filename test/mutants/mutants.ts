/** The mutants of the rooms that keep and serve animals, as Stryker makes them. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/process.js';
import { mutantsOf, type Place } from './stryker.js';

/** One change of one place of src. */
export interface Mutant {
  /** Below src. */
  readonly file: string;
  readonly room: string;
  readonly mutator: string;
  /** Where the text begins that is replaced, in characters, and behind it. */
  readonly from: number;
  readonly to: number;
  readonly original: string;
  readonly replacement: string;
}

/** A change that somebody has written down. */
export interface Change {
  /** Below src. */
  readonly file: string;
  /** Stands once in the file. */
  readonly text: string;
  readonly becomes: string;
}

/** Which folders of test hold a room: a mutant of it is for them to kill. */
export const foldersThatHold: Readonly<Record<string, readonly string[]>> = {
  contract: ['http', 'storage', 'plugins', 'standalone', 'torture'],
  http: ['http', 'plugins', 'standalone'],
  engine: ['storage', 'http', 'torture', 'standalone'],
  memory: ['storage', 'http', 'plugins', 'torture'],
  journal: ['storage', 'standalone', 'torture'],
  file: ['storage', 'standalone', 'torture'],
  postgres: ['postgres'],
};

const texts = new Map<string, string>();

/** A file of src as it was when the run began. */
function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(join(root, 'src', file), 'utf8');
  texts.set(file, text);
  return text;
}

/** What a mutant makes of its file. */
export function mutatedText({ file, from, to, replacement }: Mutant): string {
  const text = textOf(file);
  return text.slice(0, from) + replacement + text.slice(to);
}

/** All of Stryker's, in the order of the source. */
export async function makeMutants(): Promise<readonly Mutant[]> {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter(
      (name) => name.endsWith('.ts') && name !== 'server.ts' && roomOf(name) in foldersThatHold,
    )
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

/** A change as a mutant. @throws Error where its text does not stand once in its file */
export function mutantOf({ file, text, becomes }: Change): Mutant {
  const from = textOf(file).indexOf(text);
  if (textOf(file).split(text).length !== 2) throw new Error(`not once in src/${file}: ${text}`);
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
  return { file, room: roomOf(file), mutator, from, to, original, replacement };
}

function roomOf(file: string): string {
  return file.includes('/') ? file.replace(/\/.*/, '') : 'contract';
}

export function offsetOf(text: string, { line, column }: Place): number {
  const before = text.split('\n').slice(0, line);
  return before.reduce((sum, each) => sum + each.length + 1, column);
}

/** A mutant in a line. */
export function told({ file, from, mutator, original, replacement }: Mutant): string {
  const before = textOf(file).slice(0, from).split('\n');
  const place = `${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
  const inLine = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 200);
  return `src/${file}:${place} ${mutator}: ${inLine(original)} => ${inLine(replacement)}`;
}
