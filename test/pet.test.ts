// Tests the field table of src/pet.ts: each row keeps what `FieldType` says of its members.
import './support/unmeasured.js';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import './support/built.js';
import { parseJson, petFields, toByteString } from '../dist/index.js';

/** The last bytes of the patterns that the reader of storage files uses. */
const lastBytes = ['\\x7f', '\\xff'];

for (const { name, type } of petFields) {
  describe(`the row ${name} of the field table`, () => {
    for (const lastByte of lastBytes) {
      const pattern = new RegExp(`^${type.pattern(lastByte)}$`);

      test(`reads and writes back each text that its pattern up to ${lastByte} matches`, () => {
        let matched = 0;
        fc.assert(
          fc.property(fc.stringMatching(pattern, { size: 'medium' }), (text) => {
            // A pattern matches bytes, which need not be UTF-8. Encoded, they are.
            const json = toByteString(text);
            if (!pattern.test(json)) return;

            matched++;
            const value = type.read(parseJson(json));
            assert.notEqual(value, undefined, `read must accept ${json}`);
            assert.equal(type.write(value), json);
          }),
          { numRuns: 1000 },
        );
        assert.ok(matched >= 200, `only ${matched} texts matched`);
      });
    }

    test('its pattern matches no text with a quote between the outer quotes', () => {
      const quoted = new RegExp(`^${type.pattern('\\xff')}$`);
      for (const text of ['"\\""', '"a"b"', '"\\"a"', '"a\\"', '"""'])
        assert.doesNotMatch(text, quoted);
    });
  });
}
