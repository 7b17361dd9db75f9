/** The checksums of a batch. */
import { crc32 } from 'node:zlib';
import { byteOrderMark } from './line-chunks.js';
import type { CommitRecord } from './lines.js';

/**
 * The checksums of a batch of lines: of its bytes as they are, and as they were written, without a
 * byte order mark at the start and with LF for each CR LF (F13).
 */
export class BatchSum {
  #exact = 0;
  #written = 0;
  #writtenLength = 0;

  /** The CRC-32 of the bytes as they are. */
  get exact(): number {
    return this.#exact;
  }

  /** The length of the batch in bytes when it was written. */
  get writtenLength(): number {
    return this.#writtenLength;
  }

  /** True if no lines were added. A byte order mark is not a line. */
  get isEmpty(): boolean {
    return this.#writtenLength === 0;
  }

  /** Adds whole lines. */
  add(bytes: Buffer): void {
    if (bytes.length === 0) return;

    const written = asWritten(bytes, this.isEmpty);
    const isSame = written === bytes && this.#written === this.#exact;
    this.#exact = crc32(bytes, this.#exact);
    // The second checksum is computed only if another program has changed the file.
    this.#written = isSame ? this.#exact : crc32(written, this.#written);
    this.#writtenLength += written.length;
  }

  /** True if a commit record has one of the checksums. */
  fits(commit: CommitRecord): boolean {
    return commit.crc32 === this.#exact || commit.crc32 === this.#written;
  }
}

/** Returns bytes without a byte order mark at the start and without the CR of each CR LF. */
function asWritten(bytes: Buffer, isStart: boolean): Buffer {
  const hasMark = isStart && bytes.toString('latin1', 0, 3) === byteOrderMark;
  const hasReturns = bytes.includes('\r\n');
  if (!hasMark && !hasReturns) return bytes;

  const text = bytes.toString('latin1', hasMark ? byteOrderMark.length : 0);
  return Buffer.from(text.replaceAll('\r\n', '\n'), 'latin1');
}
