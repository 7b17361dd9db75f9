/** Owns how figures are written. */

/** What stands where there is no figure. */
export const none = '–';

/** A whole number as people read it. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** A number with so many decimals. */
export function decimal(value: number, decimals = 2): string {
  return value.toFixed(decimals);
}

/** Bytes as megabytes of a million. */
export function megabytes(bytes: number): string {
  return `${decimal(bytes / 1e6, bytes < 1e7 ? 1 : 0)} MB`;
}

/** A table in Markdown. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [
    line(head),
    line(head.map((_, column) => (column === 0 ? '---' : '--:'))),
    ...rows.map(line),
  ].join('\n');
}
