// Reads JSON without rounding, because `JSON.parse` rounds integers beyond 2^53.

const numbers = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Returns the index after the string whose opening quote is at `start`.
 * @param {string} text
 * @param {number} start
 */
function endOfString(text, start) {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text[at - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return at + 1;
  }
  return text.length;
}

/**
 * Returns JSON with `change` applied to each number. Strings may have any length.
 * @param {string} text
 * @param {(digits: string) => string} change
 */
export function mapNumbers(text, change) {
  const parts = [];
  for (let at = 0; at < text.length; ) {
    const quote = text.indexOf('"', at);
    const end = quote < 0 ? text.length : quote;
    parts.push(text.slice(at, end).replace(numbers, change));
    at = quote < 0 ? end : endOfString(text, quote);
    parts.push(text.slice(end, at));
  }
  return parts.join('');
}

/**
 * Parses JSON with each number as a string of its digits.
 * @param {string} text
 * @returns {unknown}
 * @throws {SyntaxError}
 */
export function parseExactly(text) {
  return JSON.parse(mapNumbers(text, (digits) => `"${digits}"`));
}

/**
 * Returns the text of each object in a JSON array, unchanged.
 * @param {string} text
 */
export function objectTexts(text) {
  const marks = /["[\]{}]/g;
  /** @type {string[]} */
  const objects = [];
  let depth = 0;
  let start = 0;
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    const { 0: character, index } = mark;
    if (character === '"') marks.lastIndex = endOfString(text, index);
    else if (character === '[' || character === '{') {
      depth++;
      if (depth === 2) start = index;
    } else {
      depth--;
      if (depth === 1) objects.push(text.slice(start, index + 1));
    }
  }
  return objects;
}
