/** Reads a file in chunks of whole lines. */
import { maxTextBytes } from '../engine/index.js';
import type { Disk, FileFacts } from './disk.js';
import { idempotencyPattern } from './lines.js';

/** A part of a file: whole lines, or its unfinished last line. */
export interface LineChunk {
  /** The bytes of the chunk. The next chunk reuses their memory. */
  readonly bytes: Buffer;
  /** The same bytes as a byte string. */
  readonly text: string;
  /** The offset of the chunk in the file. */
  readonly at: number;
}

/**
 * Reads an open file in chunks of a mebibyte or more. An idempotency record is in the same chunk
 * as the next line. A line longer than `maxTextBytes` is cut.
 */
export async function* lineChunks(
  disk: Disk,
  descriptor: number,
  facts: FileFacts,
): AsyncGenerator<LineChunk, undefined> {
  if (!(await isRegular(disk, descriptor, facts)))
    throw Object.assign(new Error('it is not a regular file'), { code: 'EFTYPE' });

  const { size } = facts;
  let buffer = Buffer.allocUnsafeSlow(Math.min(2 ** 20, size + 1));
  let at = 0;
  let length = 0;
  let count: number;
  do {
    count = await disk.read(descriptor, buffer.subarray(length, size - at), at + length);
    length += count;

    const whole = endOfWholeLines(buffer.subarray(0, length));
    const end = count === 0 || (whole === 0 && length > maxTextBytes) ? length : whole;
    if (end > 0)
      yield { bytes: buffer.subarray(0, end), text: buffer.toString('latin1', 0, end), at };

    buffer.copyWithin(0, end, length);
    length -= end;
    at += end;
    if (length === buffer.length) buffer = Buffer.concat([buffer], 2 * length);
  } while (count > 0);
}

/**
 * True if a file is a regular file. Files of /proc claim to be regular, but always have the size 0,
 * even if they have content. A regular file may have grown since `facts` were read.
 */
async function isRegular(disk: Disk, descriptor: number, facts: FileFacts): Promise<boolean> {
  return (
    facts.isFile() &&
    (facts.size > 0 ||
      (await disk.read(descriptor, Buffer.alloc(1), 0)) === 0 ||
      (await disk.factsOf(descriptor)).size > 0)
  );
}

/** Returns the end of the last whole line, or its start if it is an idempotency record. */
function endOfWholeLines(bytes: Buffer): number {
  const end = bytes.lastIndexOf(0x0a) + 1;
  const lastFrom = end < 2 ? 0 : bytes.lastIndexOf(0x0a, end - 2) + 1;
  const line = bytes.toString('latin1', lastFrom, end);
  return idempotencyPattern.test(line.slice(firstLineOffset(line, lastFrom))) ? lastFrom : end;
}

/** A byte order mark in UTF-8, which Windows editors put at the start of a file. */
export const byteOrderMark = '\xef\xbb\xbf';

/** Returns the offset of the first line in the chunk of a file that begins at `at`. */
export function firstLineOffset(text: string, at: number): number {
  return at === 0 && text.startsWith(byteOrderMark) ? byteOrderMark.length : 0;
}
