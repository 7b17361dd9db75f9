/** Suggests the known words that a misspelt word of the command line may stand for. */

/** The longest word that is compared, because the time grows with the square of its length. */
const maxLength = 40;

/** The most words that a hint names, and the most typing errors in a word. */
const maxSimilar = 4;
const maxErrors = 3;

/**
 * Returns the hint of a message about an unknown word: the similar known words, or `otherwise` if
 * no known word is similar.
 */
export function suggestion(
  word: string,
  known: readonly string[],
  otherwise = '; --help lists all',
): string {
  const similar = similarWords(word, known);
  return similar.length === 0 ? otherwise : `; did you mean ${similar.join(' or ')}?`;
}

/**
 * Returns the known words with the fewest typing errors, those that begin with the word, and those
 * of which it is a part, else the longest one with which the word begins. Case and leading dashes
 * do not count.
 */
export function similarWords(word: string, known: readonly string[]): readonly string[] {
  const text = plain(word);
  if (text === '' || text.length > maxLength) return [];

  const equal = known.filter((other) => plain(other) === text);
  if (equal.length > 0) return equal;

  const errors = known.map((other) => countOfErrors(text, plain(other)));
  const fewest = Math.min(...errors, maxErrors);
  const mostErrors = Math.min(fewest, Math.floor(text.length / 3));
  // A letter alone is the beginning of a flag, such as -p of --port, but not of a word.
  const isLongEnough = text.length > 1 || word.startsWith('-');

  const similar = known.filter((other, index) => {
    const [errorCount = Infinity, name] = [errors[index], plain(other)];
    if (errorCount <= mostErrors) return true;
    return isLongEnough && (name.startsWith(text) || name.split(/[-_]/).includes(text));
  });
  if (similar.length > 0) return similar.length > maxSimilar ? [] : similar;

  const shorter = known.filter((other) => plain(other).length > 2 && text.startsWith(plain(other)));
  return shorter.sort((one, other) => other.length - one.length).slice(0, 1);
}

function plain(word: string): string {
  return word.toLowerCase().replace(/^-+/, '');
}

/**
 * Returns the least number of typing errors that turn one word into another. An error inserts,
 * omits or replaces a letter, or swaps two neighbours.
 */
function countOfErrors(word: string, other: string): number {
  /** The counts of the two rows above: for the first letters of `word`, and one letter fewer. */
  let above = Array.from({ length: other.length + 1 }, (_, index) => index);
  let twoAbove: readonly number[] = above;

  for (let row = 1; row <= word.length; row++) {
    const counts = [row];
    for (let column = 1; column <= other.length; column++) {
      const at = (list: readonly number[], index: number) => list[index] ?? Infinity;
      const isEqual = word[row - 1] === other[column - 1];
      const isSwapped =
        row > 1 && word[row - 1] === other[column - 2] && word[row - 2] === other[column - 1];
      counts[column] = Math.min(
        at(above, column) + 1,
        at(counts, column - 1) + 1,
        at(above, column - 1) + (isEqual ? 0 : 1),
        isSwapped ? at(twoAbove, column - 2) + 1 : Infinity,
      );
    }
    twoAbove = above;
    above = counts;
  }
  return above[other.length] ?? Infinity;
}
