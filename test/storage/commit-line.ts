/**
 * The commit line of a batch, written by hand, so that the code does not prove itself. Knows no
 * animal.
 */
import { crc32 } from 'node:zlib';

/** The commit line of a batch of these bytes that began at an offset of its file, in bytes. */
export function commitOf(body: Uint8Array, from: number): Buffer {
  return Buffer.from(
    `{"commit":{"from":${from},"crc32":"${crc32(body).toString(16).padStart(8, '0')}"}}\n`,
  );
}
