/** Generates texts for property tests. */
import fc from 'fast-check';

/** A character of ASCII, below the surrogates, or above them. */
const character = fc
  .oneof(fc.nat({ max: 0x7f }), fc.nat({ max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code), codeOf);

/**
 * Returns the code point of a character, for fast-check to shrink it.
 * @throws TypeError if the text is not one character
 */
function codeOf(text: unknown): number {
  const code = typeof text === 'string' ? text.codePointAt(0) : undefined;
  if (code === undefined || String.fromCodePoint(code) !== text)
    throw new TypeError('not one character');
  return code;
}

/**
 * Returns an arbitrary well-formed text. The unit `binary` of fast-check takes a second to create.
 */
export function anyText(maxLength?: number): fc.Arbitrary<string> {
  return fc.string({ unit: character, ...(maxLength !== undefined && { maxLength }) });
}
