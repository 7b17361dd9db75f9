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

/** Which folders of test hold a room: a mutant of it is for them to kill. */
export const testsOf: Readonly<Record<string, readonly string[]>> = {
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
export function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(join(root, 'src', file), 'utf8');
  texts.set(file, text);
  return text;
}

/** All of them, in the order of the source. */
export async function makeMutants(): Promise<readonly Mutant[]> {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && name !== 'server.ts' && roomOf(name) in testsOf)
    .sort();
  const mutants = await mutantsOf(
    files.map((name) => ({ name, content: textOf(name), mutate: true })),
  );
  return mutants.map(({ fileName: file, mutatorName: mutator, location, replacement }): Mutant => {
    const text = textOf(file);
    const [from, to] = [offsetOf(text, location.start), offsetOf(text, location.end)];
    const original = text.slice(from, to);
    return { file, room: roomOf(file), mutator, from, to, original, replacement };
  });
}

function roomOf(file: string): string {
  return file.includes('/') ? file.replace(/\/.*/, '') : 'contract';
}

export function offsetOf(text: string, { line, column }: Place): number {
  const before = text.split('\n').slice(0, line);
  return before.reduce((sum, each) => sum + each.length + 1, column);
}

export function placeOf(text: string, offset: number): Place {
  const before = text.slice(0, offset).split('\n');
  return { line: before.length - 1, column: before.at(-1)?.length ?? 0 };
}
