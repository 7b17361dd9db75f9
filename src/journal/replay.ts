/** Reads a journal and tells what of it is sound, for a start and for `check`; changes nothing. */
import { crc32 } from 'node:zlib';
import { PetstoreError } from '../errors.js';
import { transferAll, type Disk } from './disk.js';
import {
  commitPattern,
  offerLine,
  readLine,
  wholeLines,
  type AcceptLine,
  type ImportRecord,
} from './lines.js';

/**
 * Is told of each sound commit, after its lines, and of the import that its batch was a part of.
 */
export type OnCommit = (imported?: ImportRecord) => void;

/**
 * Reads an open journal, handing each line to `accept` but commits and idempotency records, which
 * come with the line after them. Answers `committedEnd`, where the last sound commit ends; `end`,
 * where the accepted lines do; `sum`, the CRC-32 of what is between; `problem`, the first bad line,
 * from 1, its offset, and a sentence without its full stop; `tornTail`, all from `end` on, where
 * that is the rest of a write that a crash cut short (F2) and no damage (F3). `onRead` is told
 * where each piece of a mebibyte or more begins, before that is replayed. An imported batch is
 * handed to `accept` once its commit is there: without that, all of it is torn (F11).
 */
export async function replay(
  disk: Disk,
  descriptor: number,
  accept: AcceptLine,
  onCommit?: OnCommit,
  onRead?: (read: number, size: number) => void,
) {
  const facts = await disk.factsOf(descriptor);
  const { size, blksize } = facts;
  let lines = 0;
  let commits = 0;
  let committedEnd = 0;
  let end = 0;
  let sum = 0;
  let lacksNewline = false;
  let problem: { readonly line: number; readonly byte: number; readonly what: string } | undefined;
  let isNothingBefore = true;
  let held: HeldBatch | undefined;
  for await (const { bytes, text, at } of wholeLines(disk, descriptor, facts)) {
    onRead?.(at, size);
    let next = 0;
    // A checksum of many lines at once: a call for each would cost more than reading it.
    let sumFrom = 0;
    while (next < text.length) {
      const line = readLine(text, next);
      const { once, commit, imported, textFrom } = line;
      lines += once ? 2 : 1;
      const place = { line: lines, byte: at + textFrom };
      let what: string | undefined;
      if (imported) {
        if (place.byte !== committedEnd) what = 'an import that does not begin its batch';
        held = { imported, place, lines: [] };
      } else if (held && !commit) {
        what = offerLine(text, line, checkWhole);
        held.lines.push({ place, offer: () => offerLine(text, line, accept) });
      } else if (!commit) what = offerLine(text, line, accept);
      else {
        sum = crc32(bytes.subarray(sumFrom, next), sum);
        sumFrom = next;
        if (commit.from !== committedEnd)
          what = `a commit from byte ${commit.from}, where the commit before it ends at byte ${committedEnd}`;
        else if (commit.crc32 !== sum)
          what = 'a commit whose checksum does not fit the lines before it';
      }
      if (what !== undefined) problem = { ...place, what };
      else if (commit && held) problem = problemIn(held);
      if (problem) break;
      next = line.end;
      if (!held || commit) end = at + next;
      lacksNewline = line.textTo === next;
      if (commit) {
        commits++;
        committedEnd = end;
        sum = 0;
        sumFrom = next;
        onCommit?.(held?.imported);
        held = undefined;
      }
    }
    sum = crc32(bytes.subarray(sumFrom, next), sum);
    isNothingBefore &&= text.slice(0, problem ? problem.byte - at : next).trim() === '';
    if (problem) break;
  }
  if (held) problem ??= { ...held.place, what: 'an import without its commit' };
  let tornTail: Buffer | undefined;
  if (problem && size - end <= maxTornBytes) {
    const tail = Buffer.allocUnsafe(size - end);
    const read = (rest: Uint8Array) => disk.read(descriptor, rest, size - rest.length);
    await transferAll(tail, read);
    const rest = tail.toString('latin1', problem.byte - end);
    if (explainedByCrash(rest, problem.byte, committedEnd, blksize, isNothingBefore))
      tornTail = tail;
  }
  return { size, commits, committedEnd, end, sum, lacksNewline, problem, tornTail };
}

/** The lines of an imported batch, which wait for its commit, and where it begins. */
interface HeldBatch {
  readonly imported: ImportRecord;
  readonly place: Place;
  readonly lines: { readonly place: Place; readonly offer: () => string | undefined }[];
}

type Place = Readonly<Record<'line' | 'byte', number>>;

/** What a crash leaves of a line is not whole, or holds zeros. @throws PetstoreError */
const checkWhole: AcceptLine = (line) => {
  if (!/^\{[\x20-\xff]*\}$/.test(line))
    throw new PetstoreError('invalid_json', 'The line is not whole.');
};

/** Offers the lines of a batch whose commit is there, up to the first that is bad. */
function problemIn({ lines }: HeldBatch) {
  for (const { place, offer } of lines) {
    const what = offer();
    if (what !== undefined) return { ...place, what };
  }
  return undefined;
}

const maxTornBytes = 256 * 2 ** 20;

/**
 * Whether a crash explains the rest of a file from its first bad line on, at `from`. A crash
 * damages the last batch only, in one of two ways: its end is missing, so that no whole commit line
 * is left; or its commit line ends the file, but a block before that was not written yet and reads
 * as zeros. Anything else was acknowledged and must not be cut.
 */
function explainedByCrash(
  rest: string,
  from: number,
  batchFrom: number,
  blockBytes: number,
  isNothingBefore: boolean,
) {
  const stop = rest.search(/[\n\0]/);
  const start = stop < 0 ? rest : rest.slice(0, stop);
  // Zeros from where a block or the batch begins to the end of that block or of the file.
  const zerosFrom = from + start.length;
  const isAtBlock = zerosFrom === batchFrom || zerosFrom % blockBytes === 0;
  const zeros = rest.slice(start.length, start.length + blockBytes - (zerosFrom % blockBytes));
  const lacksBlock = isAtBlock && /^\0+$/.test(zeros);
  if (isNothingBefore) {
    // It may be a file of something else. Ours begins like `{"id":3,"na`, or is no longer than
    // `{"i`, its first line is not whole, and it has no lines of ours without newlines
    // (`{"id":1,…}{"id":2,…`).
    const isOurs =
      start === '' ? lacksBlock : heads.some((head) => head.startsWith(rest.slice(0, head.length)));
    if (!isOurs || rest[stop] === '\n' || joined.test(start) || goesOn.test(start.slice(0, 65_536)))
      return false;
  }
  const commit = commitPattern.exec(rest);
  if (commit === null) return true;
  return (
    lacksBlock && commit.index + commit[0].length === rest.length && Number(commit[1]) === batchFrom
  );
}

/** What our first write begins with. */
const ids = Array.from('123456789', (digit) => `{"id":${digit}`);
const heads = ['{"commit":{"from":', '{"idempotency":{"key":"', '{"import":{"source":"', ...ids];
/** Two lines of ours in one; no JSON text has that, be it cut short. */
const joined = /\}\s*\{"[a-z]+":|,\{"commit":/;
/** Anything after a line's object; of a long text V8 would have no stack left. */
const goesOn = /^\{([^"{}]|"([^"\\]|\\.)*"|\{[^{}]*\})*\}./;
