/** Owns reading a file of any size piece by piece, carrying along what a piece left unread. Knows no lines. */
import type { Disk } from './disk.js';

/** A stretch of an open file, by offsets in bytes. */
export interface Stretch {
  readonly disk: Disk;
  readonly descriptor: number;
  readonly from: number;
  readonly to: number;
}

/** How long a piece is that has not grown, in bytes. */
export const pieceBytes = 2 ** 20;

/**
 * Hands over a stretch in pieces. `consume` answers how many bytes of the piece it is done with, undefined to stop; the
 * rest stands at the beginning of the next piece, which grows where nothing was done with. `at` is the piece's offset in
 * the file; `last` says that nothing follows. A piece's memory is used again for the next.
 */
export async function readPieces(
  { disk, descriptor, from, to }: Stretch,
  consume: (piece: Buffer, at: number, last: boolean) => number | undefined,
): Promise<void> {
  let buffer = Buffer.allocUnsafeSlow(Math.min(pieceBytes, to - from + 1));
  let at = from;
  let held = 0;
  for (;;) {
    const wanted = Math.min(buffer.length - held, to - at - held);
    const count = wanted === 0 ? 0 : await disk.read(descriptor, buffer.subarray(held, held + wanted), at + held);
    held += count;
    const used = consume(buffer.subarray(0, held), at, count === 0);
    if (count === 0 || used === undefined) return;
    buffer.copyWithin(0, used, held);
    held -= used;
    at += used;
    if (held === buffer.length) {
      const grown = Buffer.allocUnsafeSlow(2 * buffer.length);
      buffer.copy(grown);
      buffer = grown;
    }
  }
}
