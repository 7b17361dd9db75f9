/** Encodes values in PostgreSQL's binary format, which the driver sends unchanged. */

/** The type `bytea` in the catalog of PostgreSQL. */
const byteaOid = 17;

/**
 * Returns an array of type `bytea[]`, whose bytes are the characters of the texts. The text form of
 * an array, which the driver would send, has two hexadecimal digits for each byte.
 */
export function byteaArray(texts: readonly string[]): Buffer {
  const head = texts.length === 0 ? 12 : 20;
  const bytes = texts.reduce((sum, text) => sum + 4 + text.length, head);
  const array = Buffer.allocUnsafe(bytes);

  // Dimensions, no nulls, the type; then the length and the first index of the dimension.
  const numbers = [texts.length === 0 ? 0 : 1, 0, byteaOid, texts.length, 1];
  let at = 0;
  for (const number of numbers.slice(0, head / 4)) at = array.writeInt32BE(number, at);
  for (const text of texts) {
    at = array.writeInt32BE(text.length, at);
    at += array.write(text, at, 'latin1');
  }
  return array;
}
