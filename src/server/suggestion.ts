/** Owns guessing what a misspelt word was meant to be. */

/** `; did you mean X?` for the nearest of the known words, or else where to look. */
export function suggestion(word: string, known: readonly string[]): string {
  // Of two that are as near, whoever mistypes has most likely begun well.
  const rank = (candidate: string): number => (beginsAlike(word.slice(0, 3), candidate) ? 0 : 1);
  const near = known
    .map((candidate) => ({ candidate, edits: beginsAlike(word, candidate) ? 1 : editsBetween(word, candidate) }))
    .filter(({ candidate, edits }) => edits <= Math.max(2, candidate.length / 3))
    .sort((one, other) => one.edits - other.edits || rank(one.candidate) - rank(other.candidate) || one.candidate.localeCompare(other.candidate))[0];
  return near === undefined ? '; --help lists all' : `; did you mean ${near.candidate}?`;
}

/** A short form such as `-h`, or the beginning of the word. */
function beginsAlike(word: string, candidate: string): boolean {
  const letters = word.replace(/^-+/, '');
  return letters !== '' && candidate.replace(/^-+/, '').startsWith(letters);
}

/** How many letters must be put in, left out or changed to make one word the other (Levenshtein). */
function editsBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...one].entries()) {
    const next = [index + 1];
    for (const [at, otherLetter] of [...other].entries()) {
      const [left = 0, above = 0, corner = 0] = [next[at], row[at + 1], row[at]];
      next.push(Math.min(left + 1, above + 1, corner + (letter === otherLetter ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
