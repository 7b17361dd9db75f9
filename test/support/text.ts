/** Random texts for property tests. */
import fc from 'fast-check';

const character = fc
  .oneof(fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code));

/** Any text that is well-formed; what fast-check has for it, the unit `binary`, takes a second to make. */
export const anyText: fc.Arbitrary<string> = fc.string({ unit: character });
