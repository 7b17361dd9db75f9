/**
 * Owns the one question behind a bad line: could a crash have left the file like this (F2), or is it damage (F3)?
 * Knows no animal and changes nothing.
 */
import { endOfNextCommitLine, maxCommitLineBytes } from './commit-line.js';
import { readPieces, type Stretch } from './pieces.js';

/** Where the unfinished batch began, and the size of the disk's blocks, in bytes. */
export interface CrashScene {
  readonly batchFrom: number;
  readonly blockBytes: number;
}

/**
 * Whether a crash explains the rest of a file from the beginning of its first bad line.
 *
 * A crash cuts the last batch only. Mostly its commit line is then missing or broken, so none stands in the rest. The
 * disk may also write a batch's blocks in any order: then its commit line stands at the very end and a block before it
 * is missing, which reads as zeros. Whatever else stands here was acknowledged once, so it must not be cut.
 */
export async function explainedByCrash(rest: Stretch, scene: CrashScene): Promise<boolean> {
  const { commits, lastCommitEnd, firstZero } = await survey(rest);
  if (commits === 0) return true;
  return commits === 1 && lastCommitEnd === rest.to && firstZero !== undefined && missesBlock(rest, scene, firstZero);
}

interface Survey {
  readonly commits: number;
  readonly lastCommitEnd: number;
  /** The offset of the first zero byte of the first line, undefined where it has none. */
  readonly firstZero: number | undefined;
}

async function survey(rest: Stretch): Promise<Survey> {
  let commits = 0;
  let lastCommitEnd = -1;
  let firstZero: number | undefined;
  let inFirstLine = true;
  await readPieces(rest, (piece, at, last) => {
    if (inFirstLine) {
      const newline = piece.indexOf(0x0a);
      const zero = piece.indexOf(0);
      if (zero >= 0 && (newline < 0 || zero < newline)) firstZero ??= at + zero;
      inFirstLine = newline < 0;
    }
    let done = 0;
    for (let end = endOfNextCommitLine(piece, 0); end >= 0; end = endOfNextCommitLine(piece, end)) {
      commits++;
      lastCommitEnd = at + end;
      done = end;
    }
    // A commit line may begin in this piece and end in the next.
    return last ? piece.length : Math.max(done, piece.length - maxCommitLineBytes);
  });
  return { commits, lastCommitEnd, firstZero };
}

/** Whether zeros begin where a block or the batch does, and go on to the end of that block. */
async function missesBlock({ disk, descriptor }: Stretch, scene: CrashScene, firstZero: number): Promise<boolean> {
  const { batchFrom, blockBytes } = scene;
  const intoBlock = firstZero % blockBytes;
  if (firstZero !== batchFrom && intoBlock !== 0) return false;
  const block = Buffer.alloc(blockBytes - intoBlock, 1);
  for (let read = 0; read < block.length; ) {
    const count = await disk.read(descriptor, block.subarray(read), firstZero + read);
    if (count === 0) return false;
    read += count;
  }
  return block.every((byte) => byte === 0);
}
