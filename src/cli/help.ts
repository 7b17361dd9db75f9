/** Lays out the lines of the help, for a terminal of 80 columns. */

const width = 80;
/** The column at which the descriptions begin. */
const aboutColumn = 27;

/**
 * Returns the lines of a row: `head`, and `about` beside it or, if `head` is long, below it.
 *
 * @param about Texts joined by blanks. Only the first text may be broken across lines.
 */
export function helpRow(head: string, about: readonly [string, ...string[]]): readonly string[] {
  const [text, ...whole] = about;
  const lines = fill([...text.split(' '), ...whole], width - aboutColumn);

  const indented = lines.map((line) => ' '.repeat(aboutColumn) + line);
  const start = `  ${head}`;
  const [first = '', ...rest] = indented;
  const fits = start.length + 2 <= aboutColumn;
  return fits ? [start.padEnd(aboutColumn) + first.trimStart(), ...rest] : [start, ...indented];
}

/** Returns the lines of a paragraph, each after `indent` blanks. */
export function helpParagraph(text: string, indent: number): readonly string[] {
  return fill(text.split(' '), width - indent).map((line) => ' '.repeat(indent) + line);
}

/** Joins words to lines of at most `columns` characters. */
function fill(words: readonly string[], columns: number): readonly string[] {
  const lines: string[] = [];
  for (const word of words) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= columns)
      lines.splice(-1, 1, `${line} ${word}`);
    else lines.push(word);
  }
  return lines;
}
