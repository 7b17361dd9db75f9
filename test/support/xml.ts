/** Reads XML strictly, as a program that shows JUnit reports may. */
import assert from 'node:assert/strict';

/** The characters that XML allows. */
const xmlCharacters = /^[\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]*$/u;
const xmlToken =
  /<\?xml [^<>]*\?>|<\/(?<end>\w+)>|<(?<start>\w+)(?<values>( \w+="[^"<]*")*)(?<empty>\/)?>|(?<text>[^<>]+)/y;
const xmlEntities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"' };

/** Returns the values of attributes and the texts of XML. Fails if the XML is not well-formed. */
export function readXml(xml: string): readonly string[] {
  assert.match(xml, xmlCharacters);
  const decoded = (text: string) =>
    text.replace(/&(?:#(\d+);|(\w+);)?/g, (entity, code?: string, name = '') =>
      code === undefined
        ? (xmlEntities[name] ?? assert.fail(entity))
        : String.fromCodePoint(Number(code)),
    );
  const open: string[] = [];
  const found: string[] = [];
  for (xmlToken.lastIndex = 0; xmlToken.lastIndex < xml.length; ) {
    const rest = xml.slice(xmlToken.lastIndex);
    const { groups } = xmlToken.exec(xml) ?? assert.fail(rest);
    const { start, end, empty, values = '', text = '' } = groups ?? {};
    if (start !== undefined && empty === undefined) open.push(start);
    if (end !== undefined) assert.equal(open.pop(), end);
    // A reader replaces raw line ends.
    for (const [, value = ''] of values.matchAll(/"(.*?)"/gs))
      found.push(decoded(value.replace(/[\t\r\n]/g, ' ')));
    found.push(decoded(text.replace(/\r\n?/g, '\n')));
  }
  assert.deepEqual(open, []);
  return found;
}
