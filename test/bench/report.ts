/** Owns the report of a part, in Markdown: what was run, where, and what came out. */
import type { Measurement, Table } from './part.js';
import { markdownTable } from './words.js';

/** How a part came about. */
export interface Circumstances {
  /** What anyone would type to repeat it. */
  readonly command: string;
  readonly minutes: number;
  /** Sentences about the machine. */
  readonly conditions: string;
}

/** The report as the text of a Markdown file. */
export function reportOf(
  title: string,
  { tables, missing }: Measurement,
  { command, minutes, conditions }: Circumstances,
): string {
  const run = `\`${command}\`, ${minutes.toFixed(1)} minutes. ${conditions}`;
  const blocks = [
    `# ${title}`,
    run,
    ...(missing === undefined ? [] : [`Not measured: ${missing}.`]),
    ...tables.flatMap(blocksOf),
  ];
  return `${blocks.join('\n\n')}\n`;
}

function blocksOf({ title, note, head, rows }: Table): readonly string[] {
  return [`## ${title}`, ...(note === undefined ? [] : [note]), markdownTable(head, rows)];
}
