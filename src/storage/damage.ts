/**
 * Owns the one question behind a bad line: could a crash have left the file like this (F2), or is it damage (F3)?
 * Knows no animal and changes nothing.
 */
import { maxCommitLineBytes, nextCommitLine } from './commit-line.js';
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
 * disk may also write a batch's blocks in any order: then that batch's own commit line stands at the very end and a
 * block before it is missing, which reads as zeros. Whatever else stands here was acknowledged once, so it must not be cut.
 */
export async function explainedByCrash(rest: Stretch, scene: CrashScene): Promise<boolean> {
  const { commits, last, firstZero, foreign } = await survey(rest);
  // Nothing of ours stands before it, and no crash of ours writes this: somebody named a file of something else.
  if (rest.from === 0 && foreign) return false;
  if (last === undefined) return true;
  const ownCommit = commits === 1 && last.end === rest.to && last.from === scene.batchFrom;
  return ownCommit && firstZero !== undefined && missesBlock(rest, scene, firstZero);
}

interface Survey {
  readonly commits: number;
  /** Where the batch of the last commit line began, as it says, and where the line ends. */
  readonly last: { readonly from: number; readonly end: number } | undefined;
  /** The offset of the first zero byte of the first line, undefined where it has none. */
  readonly firstZero: number | undefined;
  /** Whether the first line is no part of a write of ours: whole and without a missing block, or begun otherwise. */
  readonly foreign: boolean;
}

async function survey(rest: Stretch): Promise<Survey> {
  let commits = 0;
  let last: Survey['last'];
  let firstZero: number | undefined;
  let inFirstLine = true;
  let firstByte: number | undefined;
  await readPieces(rest, (piece, at, isLast) => {
    firstByte ??= piece[0];
    if (inFirstLine) {
      const newline = piece.indexOf(0x0a);
      const zero = piece.indexOf(0);
      if (zero >= 0 && (newline < 0 || zero < newline)) firstZero ??= at + zero;
      inFirstLine = newline < 0;
    }
    let done = 0;
    for (let next = nextCommitLine(piece, 0); next !== undefined; next = nextCommitLine(piece, done)) {
      commits++;
      last = { from: next.from, end: at + next.end };
      done = next.end;
    }
    // A commit line may begin in this piece and end in the next.
    return isLast ? piece.length : Math.max(done, piece.length - maxCommitLineBytes);
  });
  const begunByUs = firstByte === 0x7b || firstByte === 0;
  return { commits, last, firstZero, foreign: !begunByUs || (!inFirstLine && firstZero === undefined) };
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
