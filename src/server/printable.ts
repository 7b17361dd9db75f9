/** Owns keeping a line one line: what moves a terminal's cursor or starts a line in some reader is escaped. */

// The controls of ASCII and Latin-1, the line ends of Unicode, and what turns the writing direction round.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** The text with each such character as its JSON escape, so that it stays what it was inside a JSON string. */
export function printable(text: string): string {
  return text.replace(unprintable, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
