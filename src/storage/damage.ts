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
  /** Whether nothing of ours stands before the rest: no commit, no record, no animal. */
  readonly isAllThereIs: boolean;
}

/** What our first write begins with, whichever it is. */
const heads = ['{"commit":{"from":', '{"idempotency":{"key":"', ...Array.from('123456789', (digit) => `{"id":${digit}`)] as const;
const maxHeadBytes = Math.max(...heads.map((head) => head.length));

/**
 * Whether a crash explains the rest of a file from the beginning of its first bad line.
 *
 * A crash cuts the last batch only. Mostly its commit line is then missing or broken, so none stands in the rest. The
 * disk may also write a batch's blocks in any order: then that batch's own commit line stands at the very end and a
 * block before it is missing, which reads as zeros. Whatever else stands here was acknowledged once, so it must not be cut.
 */
export async function explainedByCrash(rest: Stretch, scene: CrashScene): Promise<boolean> {
  const { commits, last, firstZero, begunByUs, isWholeLine } = await survey(rest);
  const hasGap = firstZero !== undefined && (await missesBlock(rest, scene, firstZero));
  // No crash of ours leaves this: somebody named a file of something else.
  if (scene.isAllThereIs && (isWholeLine || !(begunByUs || (hasGap && firstZero === rest.from)))) return false;
  if (last === undefined) return true;
  return hasGap && commits === 1 && last.end === rest.to && last.from === scene.batchFrom;
}

interface Survey {
  readonly commits: number;
  /** Where the batch of the last commit line began, as it says, and where the line ends. */
  readonly last: { readonly from: number; readonly end: number } | undefined;
  /** The offset of the first zero byte of the first line, undefined where it has none. */
  readonly firstZero: number | undefined;
  /** Whether the first line begins as one of ours, as far as it goes. */
  readonly begunByUs: boolean;
  /** Whether the first line has its end, or something else behind its whole object, and no zero byte before. */
  readonly isWholeLine: boolean;
}

async function survey(rest: Stretch): Promise<Survey> {
  let commits = 0;
  let last: Survey['last'];
  let firstZero: number | undefined;
  let inFirstLine = true;
  let begunByUs = true;
  let hasMore = false;
  await readPieces(rest, (piece, at, isLast) => {
    if (at === rest.from) {
      begunByUs = isBegunByUs(piece);
      hasMore = hasMoreThanObject(piece);
    }
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
  return { commits, last, firstZero, begunByUs, isWholeLine: hasMore || (!inFirstLine && firstZero === undefined) };
}

function isBegunByUs(bytes: Buffer): boolean {
  const begun = bytes.toString('latin1', 0, maxHeadBytes);
  return heads.some((head) => begun.startsWith(head) || head.startsWith(begun));
}

/**
 * Whether bytes begin with a whole object and, behind it, something that never stands there in a write of ours: neither a
 * newline nor a missing block. So it is where somebody ended lines otherwise.
 */
function hasMoreThanObject(bytes: Buffer): boolean {
  let depth = 0;
  let inText = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === 0) return false;
    if (byte === 0x22) inText = !inText;
    else if (inText) at += byte === 0x5c ? 1 : 0;
    else if (byte === 0x7b) depth++;
    else if (byte === 0x7d && --depth === 0) return at + 1 < bytes.length && bytes[at + 1] !== 0x0a && bytes[at + 1] !== 0;
  }
  return false;
}

/** Whether zeros begin where a block or the batch does, and go on to the end of that block, or of the file. */
async function missesBlock({ disk, descriptor, to }: Stretch, scene: CrashScene, firstZero: number): Promise<boolean> {
  const { batchFrom, blockBytes } = scene;
  const intoBlock = firstZero % blockBytes;
  if (firstZero !== batchFrom && intoBlock !== 0) return false;
  const block = Buffer.alloc(Math.min(blockBytes - intoBlock, to - firstZero), 1);
  for (let read = 0; read < block.length; ) {
    const count = await disk.read(descriptor, block.subarray(read), firstZero + read);
    if (count === 0) return false;
    read += count;
  }
  return block.every((byte) => byte === 0);
}
