/** Which mutants a file of tests reaches, by V8's coverage of each process that it started. */
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

/** Where mutants begin in the scripts of dist, by the scripts' URLs. */
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

/** A place of a source, and where the compiler noted that it went. */
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

/** Where the last place went that is at this one or before it. */
function nearest(entries: readonly Entry[], place: number): number {
  let best: Entry = { source: -1, built: 0 };
  for (const entry of entries)
    if (entry.source <= place && entry.source > best.source) best = entry;
  return best.built;
}

/** The mutants whose places ran in a process of this coverage. */
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

/** What a process covered; nothing of one that was killed as it wrote it down. */
function scriptsOf(coverage: string): readonly Script[] {
  try {
    return JSON.parse(coverage).result;
  } catch {
    return [];
  }
}

/** Whether a place ran, which the smallest range around it says. */
function hasRun(ranges: readonly Range[], offset: number): boolean {
  const lengthOf = ({ startOffset, endOffset }: Range): number => endOffset - startOffset;
  const around = ranges
    .filter(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)
    .sort((one, other) => lengthOf(one) - lengthOf(other));
  return (around[0]?.count ?? 0) > 0;
}
