/** Lays out a table of texts in columns. */

/** A character that a terminal shows in two columns: of an East Asian script, or an emoji. */
const wide = new RegExp(
  '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}' +
    '\\p{Emoji_Presentation}\\u3000-\\u303e\\uff01-\\uff60\\uffe0-\\uffe6]',
  'gu',
);
/** The characters that a terminal shows in no column of their own. */
const combining = /[\p{Mn}\p{Me}]/gu;

/** Returns the number of columns in which a terminal shows a text. */
function widthOf(text: string): number {
  const shown = text.replace(combining, '');
  return [...shown].length + (shown.match(wide)?.length ?? 0);
}

/**
 * Returns the lines of a table, with two blanks between columns and none at the end of a line.
 *
 * @param rows Rows with the same number of cells.
 */
export function tableLines(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((most, row) => Math.max(most, widthOf(row[column] ?? '')), 0),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - widthOf(cell)))
      .join('  ')
      .trimEnd(),
  );
}
