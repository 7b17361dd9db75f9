/** Owns how figures are written, for people and for `make evidence`. Knows no measurement. */
import { writeFileSync } from 'node:fs';
import { callersEnvironment } from '../support/environment.js';

/** A table as people read it. */
export interface Table {
  /** What a document calls it by; absent where it stands in `docs/figures` alone. */
  readonly key?: string;
  readonly title: string;
  /** What must be known to read it: sentences. */
  readonly note?: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** What a run has measured on one Node. */
export interface Results {
  /** Its version. */
  readonly node: string;
  /** Words about the run and its machine. */
  readonly conditions: string;
  readonly tables: readonly Table[];
}

/** Keeps what a run has measured in the file that FIGURES names, if it names one. */
export function keep(conditions: string, tables: readonly Table[]): void {
  const path = callersEnvironment['FIGURES'];
  const results: Results = { node: process.versions.node, conditions, tables };
  if (path !== undefined) writeFileSync(path, JSON.stringify(results));
}

/** A table with its title and its note, in Markdown. */
export function section({ title, note, head, rows }: Table): string {
  return [`## ${title}`, ...(note === undefined ? [] : [note]), markdownTable(head, rows)].join(
    '\n\n',
  );
}

/** A table in Markdown. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  // Figures stand at the right.
  const rule = (_: string, column: number): string =>
    /^[\d–]/.test(rows[0]?.[column] ?? '') ? '--:' : '---';
  return [line(head), line(head.map(rule)), ...rows.map(line)].join('\n');
}

/** What stands where there is no figure. */
export const none = '–';

/** A whole number as people read it. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** A number with so many decimals, if there is one. */
export function decimal(value = Number.NaN, decimals = 2): string {
  return Number.isNaN(value) ? none : value.toFixed(decimals);
}

/** Bytes as megabytes of a million, if there are any. */
export function megabytes(bytes = Number.NaN): string {
  return Number.isNaN(bytes) ? none : `${decimal(bytes / 1e6, bytes < 1e7 ? 1 : 0)} MB`;
}
