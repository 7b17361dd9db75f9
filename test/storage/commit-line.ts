/** Makes commit records without the code under test, so that the code does not prove itself. */
import { crc32 } from 'node:zlib';

/** Returns the commit record of a batch whose first byte is at the offset `from` of its file. */
export function commitOf(body: Uint8Array, from: number): Buffer {
  return Buffer.from(
    `{"commit":{"from":${from},"crc32":"${crc32(body).toString(16).padStart(8, '0')}"}}\n`,
  );
}
