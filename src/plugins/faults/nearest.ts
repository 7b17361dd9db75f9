/** Finds the nearest right text, for messages about a wrong one. */

/** Returns the text that needs the fewest changes of a character to become `text`. */
export function nearestTo(text: string, texts: readonly string[]): string {
  const shown = text.slice(0, 64).toLowerCase();
  const distances = texts.map((each) => distance(shown, each.toLowerCase()));
  return texts[distances.indexOf(Math.min(...distances))] ?? '';
}

/** Returns the number of characters to add, to remove or to replace (Levenshtein's distance). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [at, char] of [...one].entries()) {
    const next = [at + 1];
    for (let index = 0; index < other.length; index++) {
      const replaced = (row[index] ?? 0) + (char === other[index] ? 0 : 1);
      next.push(Math.min(replaced, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
