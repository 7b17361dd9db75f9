/** Owns what is a line of a journal, whatever stands in it: where it ends, how long it may be, which is nothing. */

/** No animal is longer (see `checkDraft`); a line that goes on is not read, so that a file of something else cannot fill the memory. */
export const maxLineBytes = 128 * 2 ** 20;

/**
 * Where the line from `from` on ends, at its newline or at the end of the bytes; undefined where the rest of it is still
 * to be read, as in a piece that is not the last.
 */
export function lineEnd(bytes: Buffer, from: number, last: boolean): number | undefined {
  const newline = bytes.indexOf(0x0a, from);
  if (newline >= 0) return newline;
  return last || bytes.length - from > maxLineBytes ? bytes.length : undefined;
}

/** Whether a line is only white space, as an editor may leave between or behind what a person wrote. */
export function isBlank(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}
