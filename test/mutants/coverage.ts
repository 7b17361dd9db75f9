/** Finds the mutants that a test file reaches, by V8's coverage of each process that it started. */
import { readdirSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Checkout } from './checkout.js';
import { type Mutant, offsetOf } from './mutants.js';

interface Range {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

interface Script {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly Range[] }[];
}

/** The offsets of mutants in the scripts of dist, by the URLs of the scripts. */
export type Offsets = ReadonlyMap<string, ReadonlyMap<Mutant, number>>;

export function offsetsIn(checkout: Checkout, mutants: readonly Mutant[]): Offsets {
  return new Map(
    Array.from(new Set(mutants.map(({ file }) => file)), (file) => {
      const script = `dist/${file.replace(/ts$/, 'js')}`;
      const entries = entriesOf(checkout, script, checkout.read(`src/${file}`));
      const offsets = mutants
        .filter((mutant) => mutant.file === file)
        .map((mutant) => [mutant, nearest(entries, mutant.from)] as const);
      return [pathToFileURL(join(checkout.folder, script)).href, new Map(offsets)];
    }),
  );
}

/** An offset in a source, and the offset in the script to which its source map leads. */
interface Entry {
  readonly source: number;
  readonly built: number;
}

function entriesOf(checkout: Checkout, script: string, source: string): readonly Entry[] {
  const map = new SourceMap(JSON.parse(checkout.read(`${script}.map`)));
  const starts = source.split('\n').map((_, line) => offsetOf(source, { line, column: 0 }));
  const entries: Entry[] = [];
  let lineStart = 0;
  for (const [line, text] of checkout.read(script).split('\n').entries()) {
    for (let column = 0; column < text.length; column++) {
      const entry = map.findEntry(line, column);
      if ('originalLine' in entry && entry.generatedLine === line)
        entries.push({
          source: (starts[entry.originalLine] ?? 0) + entry.originalColumn,
          built: lineStart + entry.generatedColumn,
        });
    }
    lineStart += text.length + 1;
  }
  return entries;
}

/** Returns the offset in the script of the last entry at `place` or before it. */
function nearest(entries: readonly Entry[], place: number): number {
  let best: Entry = { source: -1, built: 0 };
  for (const entry of entries)
    if (entry.source <= place && entry.source > best.source) best = entry;
  return best.built;
}

/** Returns the mutants that ran in any process of a coverage folder. */
export function reached(folder: string, offsets: Offsets): ReadonlySet<Mutant> {
  const found = new Set<Mutant>();
  for (const name of readdirSync(folder)) {
    for (const { url, functions } of scriptsOf(readFileSync(join(folder, name), 'utf8'))) {
      const ranges = functions.flatMap((each) => each.ranges);
      for (const [mutant, offset] of offsets.get(url) ?? [])
        if (!found.has(mutant) && hasRun(ranges, offset)) found.add(mutant);
    }
  }
  return found;
}

/** Parses the coverage of a process; nothing if the process was killed while it wrote the file. */
function scriptsOf(coverage: string): readonly Script[] {
  try {
    return JSON.parse(coverage).result;
  } catch {
    return [];
  }
}

/** True if the code at an offset ran, by the smallest range around the offset. */
function hasRun(ranges: readonly Range[], offset: number): boolean {
  const lengthOf = ({ startOffset, endOffset }: Range): number => endOffset - startOffset;
  const around = ranges
    .filter(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)
    .sort((one, other) => lengthOf(one) - lengthOf(other));
  return (around[0]?.count ?? 0) > 0;
}
