/** Formats figures as tables, for people and for `make evidence`. */
import { writeFileSync } from 'node:fs';
import { callersEnvironment } from '../support/environment.js';

/** A table of formatted cells. */
export interface Table {
  /** The key of the table in a document; omitted if only `docs/figures` shows it. */
  readonly key?: string;
  readonly title: string;
  /** Sentences that explain the table. */
  readonly note?: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The results of a run on one version of Node. */
export interface Results {
  /** The version of Node. */
  readonly node: string;
  /** A description of the run and the machine. */
  readonly conditions: string;
  readonly tables: readonly Table[];
}

/** Writes the results of a run to the file FIGURES, if that is set. */
export function keep(conditions: string, tables: readonly Table[]): void {
  const path = callersEnvironment['FIGURES'];
  const results: Results = { node: process.versions.node, conditions, tables };
  if (path !== undefined) writeFileSync(path, JSON.stringify(results));
}

/** Returns how long this process has run, such as `11.0 minutes`. */
export function minutesSoFar(): string {
  return `${(performance.now() / 60_000).toFixed(1)} minutes`;
}

/** Returns a table with its title and its note, in Markdown. */
export function section({ title, note, head, rows }: Table): string {
  const notes = note === undefined ? [] : [wrapped(note)];
  return [`## ${title}`, ...notes, markdownTable(head, rows)].join('\n\n');
}

/** Wraps a paragraph at 120 columns. `indent` begins each line after the first. */
export function wrapped(paragraph: string, indent = ''): string {
  const lines: string[] = [];
  let line = '';
  for (const word of paragraph.split(' ')) {
    if (line !== '' && line.length + word.length >= 120) {
      lines.push(line);
      line = indent + word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}

/** Returns a table in Markdown. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  // Columns of figures are aligned to the right.
  const rule = (_: string, column: number): string =>
    /^[\d–]/.test(rows[0]?.[column] ?? '') ? '--:' : '---';
  return [line(head), line(head.map(rule)), ...rows.map(line)].join('\n');
}

/** The cell for a missing figure. */
export const none = '–';

/** Formats a whole number with thousands separators. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** Formats a number with decimals; NaN as `none`. */
export function decimal(value = Number.NaN, decimals = 2): string {
  return Number.isNaN(value) ? none : value.toFixed(decimals);
}

/** Formats bytes as megabytes of a million bytes; NaN as `none`. */
export function megabytes(bytes = Number.NaN): string {
  return Number.isNaN(bytes) ? none : `${decimal(bytes / 1e6, bytes < 1e7 ? 1 : 0)} MB`;
}
