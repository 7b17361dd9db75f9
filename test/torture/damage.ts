/**
 * R5: whatever happens to the bytes of a file, a start serves them exactly, refuses them, or sets a
 * torn tail aside; never an animal without its record.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { commitOf } from '../storage/commit-line.js';
import { made, startTexts, type Made } from './files.js';
import { blockBytes } from './inode.js';
import { Machine } from './machine.js';
import { number, type Row } from './row.js';
import { PetstoreError } from '../../dist/index.js';

const path = '/pets.jsonl';
const fullBatches = 60;

export const damage: Row = {
  id: 'R5',
  title:
    'a file with idempotency records cut at every byte, every bit flipped, every 512 bytes zeroed, every line removed, doubled, swapped',
  fullS: 20,
  isAlwaysFull: true,
  run: async () => {
    const sizes = Array.from({ length: fullBatches }, (_, index) => 1 + (index % 4));
    const small = made(
      sizes,
      (id) => ['Rex', 'Tüm', '猫 "quoted"', '{"commit":{'][id % 4] ?? '',
      (id) => id % 5 === 0,
    );
    // Its last batch is long enough for a block of the disk to be missing in it.
    const big = made([...sizes, 300], undefined, (id) => id % 3 === 0);
    const page = pageOf4096();
    const tallies = [
      await tallyOf('cuts', small, cuts(small)),
      await tallyOf('bits', page, flips(page)),
      await tallyOf('zeroed 512 bytes', big, zeros(big, 512)),
      await tallyOf('zeroed blocks', big, zeros(big, blockBytes)),
      await tallyOf('lines', small, lines(small)),
    ];
    return `0 silent changes: ${tallies.join('; ')}`;
  },
};

/** What was done to a file, and its bytes behind that. */
type Damage = readonly [what: string, bytes: Buffer];

function* cuts({ bytes }: Made): Generator<Damage> {
  for (let size = 0; size <= bytes.length; size++)
    yield [`cut at ${size}`, bytes.subarray(0, size)];
}

function* flips({ bytes }: Made): Generator<Damage> {
  for (let bit = 0; bit < 8 * bytes.length; bit++) {
    const flipped = Buffer.from(bytes);
    flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    yield [`bit ${bit & 7} of byte ${bit >> 3}`, flipped];
  }
}

function* zeros({ bytes }: Made, size: number): Generator<Damage> {
  for (let from = 0; from < bytes.length; from += size)
    yield [
      `${size} zeros from ${from}`,
      Buffer.from(bytes).fill(0, from, Math.min(from + size, bytes.length)),
    ];
}

function* lines({ bytes }: Made): Generator<Damage> {
  const all = bytes.toString('latin1').split(/(?<=\n)/);
  /** The lines with some of them in place of as many as `many` from an index on. */
  const spliced = (at: number, many: number, ...some: readonly string[]): Buffer =>
    Buffer.from(all.toSpliced(at, many, ...some).join(''), 'latin1');
  for (const [at, line] of all.entries()) {
    yield [`line ${at + 1} removed`, spliced(at, 1)];
    yield [`line ${at + 1} doubled`, spliced(at, 0, line)];
    for (let other = at + 1; other < all.length; other++) {
      const between = all.slice(at + 1, other);
      const swapped = spliced(at, other - at + 1, all[other] ?? '', ...between, line);
      yield [`lines ${at + 1} and ${other + 1} swapped`, swapped];
    }
  }
}

/** A file of exactly 4 KiB. */
function pageOf4096(): Made {
  const paddedBy = (bytes: number): Made =>
    made(
      Array.from({ length: 20 }, () => 2),
      (id) => (id === 39 ? 'x'.repeat(bytes) : `pet ${id}`),
      (id) => id % 10 === 0,
    );
  return paddedBy(4096 - paddedBy(0).bytes.length);
}

/**
 * Starts from each damaged file, and again from what the first start left. Answers how many were
 * served exactly, how many refused, and how many taken by their bytes for a write that a crash cut
 * short: there animals that were whole behind the damage are set aside (F2).
 */
async function tallyOf(name: string, whole: Made, damages: Iterable<Damage>): Promise<string> {
  const tally = { exact: 0, refused: 0, torn: 0 };
  for (const [what, bytes] of damages) tally[await startFrom(what, whole, bytes)]++;
  const { exact, refused, torn } = tally;
  return `${name} ${number(exact + refused + torn)} (${number(exact)} exact, ${number(refused)} refused, ${number(torn)} torn)`;
}

/** Starts from what was done to a whole file; what comes of it must be right. */
export async function startFrom(
  what: string,
  whole: Made,
  bytes: Buffer,
): Promise<'exact' | 'refused' | 'torn'> {
  const hold = (condition: boolean, problem: string): void =>
    assert.ok(condition, `${what}: ${problem}`);
  const machine = new Machine({ [path]: bytes });
  const { disk } = machine.process();
  const texts = await startTexts(disk, path).catch((error: unknown) => {
    hold(error instanceof PetstoreError && error.code === 'storage_damaged', String(error));
    return undefined;
  });
  if (texts === undefined) {
    hold(
      machine.file(path)?.equals(bytes) === true && machine.paths.length === 1,
      'refused, but changed',
    );
    hold(!isPrefix(bytes, whole.bytes), 'refused, though a crash leaves just this');
    return 'refused';
  }
  const again = await startTexts(disk, path);
  hold(isDeepStrictEqual(again, texts), 'the second start serves something else');
  hold(isSetAside(machine, bytes), 'bytes are gone that no copy holds');
  const stored = whole.texts.slice(0, texts.length);
  hold(isDeepStrictEqual(texts, stored), 'served are animals that were never stored');
  if (texts.length === whole.texts.length) return 'exact';
  hold(texts.length >= wholeBefore(whole, bytes), 'an animal before the damage is lost');
  hold(
    isPrefix(bytes, whole.bytes) || isUnfinished(whole, bytes),
    'an acknowledged animal is dropped in silence',
  );
  return 'torn';
}

/** Whether what the start cut off stands in the copy beside the file, byte for byte. */
function isSetAside(machine: Machine, before: Buffer): boolean {
  const after = machine.file(path) ?? Buffer.alloc(0);
  const copies = machine.paths
    .filter((name) => name !== path)
    .map((name) => machine.file(name) ?? Buffer.alloc(0));
  const kept = before.length - Buffer.concat(copies).length;
  return copies.length <= 1 && Buffer.concat([after.subarray(0, kept), ...copies]).equals(before);
}

/** How many animals stand in front of the first changed byte. */
function wholeBefore(whole: Made, bytes: Buffer): number {
  let at = 0;
  while (at < bytes.length && bytes[at] === whole.bytes[at]) at++;
  const unchanged = whole.bytes.toString('utf8', 0, at);
  return whole.texts.filter((text) => unchanged.includes(text)).length;
}

/**
 * Whether a file is by the letter of F2 what a crash in the last batch may leave: all before that
 * batch unchanged, and in it no commit line, or its own at the very end with a missing block of the
 * disk, which reads as zeros, before it.
 */
function isUnfinished({ bytes: whole, lastFrom }: Made, bytes: Buffer): boolean {
  if (!isPrefix(whole.subarray(0, lastFrom), bytes)) return false;
  const text = bytes.toString('latin1', lastFrom);
  if (!/\{"commit":\{"from":[0-9]+,"crc32":"[0-9a-f]{8}"\}\}\n/.test(text)) return true;
  const body = whole.subarray(lastFrom, whole.lastIndexOf('{"commit"'));
  if (!text.endsWith(commitOf(body, lastFrom).toString())) return false;
  for (let from = lastFrom; from < bytes.length; ) {
    const end = (Math.floor(from / blockBytes) + 1) * blockBytes;
    if (bytes.subarray(from, end).every((byte) => byte === 0)) return true;
    from = end;
  }
  return false;
}

function isPrefix(bytes: Buffer, of: Buffer): boolean {
  return bytes.equals(of.subarray(0, bytes.length));
}
