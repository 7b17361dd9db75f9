/** Owns the text of a commit line: writing it, reading it, finding it in what is damaged. Knows no file. */
import { crc32 } from './late-builtins.js';

/** What stands behind each batch: the offset where the batch began and the CRC-32 of its bytes. */
export interface CommitLine {
  readonly from: number;
  readonly crc32: number;
}

/** No commit line is longer, in bytes, its newline included: an offset has at most 16 digits. */
export const maxCommitLineBytes = 64;

const head = '{"commit":{"from":';
const standing = /^\{"commit":\{"from":(0|[1-9][0-9]{0,15}),"crc32":"([0-9a-f]{8})"\}\}\n/;

/** The commit line of a batch, newline included; pure ASCII. */
export function commitLine(commit: CommitLine): string {
  return `${head}${commit.from},"crc32":"${commit.crc32.toString(16).padStart(8, '0')}"}}\n`;
}

/** The bytes of lines with their commit line behind them, for a file that is `from` bytes long. */
export function batchBytes(lines: readonly string[], from: number): Buffer {
  const body = lines.length === 0 ? '' : `${lines.join('\n')}\n`;
  const size = body.length;
  const bytes = Buffer.allocUnsafe(size + maxCommitLineBytes);
  bytes.write(body, 0, 'latin1');
  const commit = commitLine({ from, crc32: crc32(bytes.subarray(0, size)) });
  return bytes.subarray(0, size + bytes.write(commit, size, 'latin1'));
}

/** The commit that a line from `from` up to its newline at `to` is, in exactly the text that we write; or undefined. */
export function readCommitLine(bytes: Buffer, from: number, to: number): CommitLine | undefined {
  // Its third byte tells almost every other line apart, at no cost.
  if (bytes[from + 2] !== 0x63 || to - from >= maxCommitLineBytes) return undefined;
  const match = standing.exec(bytes.toString('latin1', from, to + 1));
  return match === null ? undefined : { from: Number(match[1]), crc32: Number.parseInt(match[2] ?? '', 16) };
}

/** The first commit line from an offset on, wherever it stands in a line, and where it ends, behind its newline. */
export function nextCommitLine(bytes: Buffer, offset: number): { readonly from: number; readonly end: number } | undefined {
  for (let at = bytes.indexOf(head, offset); at >= 0; at = bytes.indexOf(head, at + 1)) {
    const match = standing.exec(bytes.toString('latin1', at, at + maxCommitLineBytes));
    if (match !== null) return { from: Number(match[1]), end: at + match[0].length };
  }
  return undefined;
}
