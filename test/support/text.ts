/** Random texts for property tests. */
import fc from 'fast-check';

/** A character of ASCII, any below the surrogates, or any above them. */
const character = fc
  .oneof(fc.nat({ max: 0x7f }), fc.nat({ max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code), codeOf);

/** For texts that fast-check takes from a list of its own, such as `__proto__`. */
function codeOf(text: unknown): number {
  const code = typeof text === 'string' ? text.codePointAt(0) : undefined;
  if (code === undefined || String.fromCodePoint(code) !== text)
    throw new TypeError('not one character');
  return code;
}

/**
 * Any text that is well-formed; what fast-check has for it, the unit `binary`, takes a second to
 * make.
 */
export function anyText(maxLength?: number): fc.Arbitrary<string> {
  return fc.string({ unit: character, ...(maxLength !== undefined && { maxLength }) });
}
