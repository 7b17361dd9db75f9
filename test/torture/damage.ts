/**
 * R5: whatever happens to the bytes of a file, a start serves them exactly, refuses them, or sets a
 * torn tail aside; never an animal without its record.
 */
import { commitOf } from '../storage/commit-line.js';
import { made, startTexts, type Made } from './files.js';
import { blockBytes } from './inode.js';
import { Machine } from './machine.js';
import { hold, number, type Row } from './row.js';
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
      ['cuts', await tallyOf(small, cuts(small))],
      ['bits', await tallyOf(page, flips(page))],
      ['zeroed 512 bytes', await tallyOf(big, zeros(big, 512))],
      ['zeroed blocks', await tallyOf(big, zeros(big, blockBytes))],
      ['lines', await tallyOf(small, lines(small))],
    ] as const;
    return `0 silent changes: ${tallies.map(([what, tally]) => `${what} ${words(tally)}`).join('; ')}`;
  },
};

interface Damage {
  readonly what: string;
  readonly bytes: Buffer;
}

function* cuts({ bytes }: Made): Generator<Damage> {
  for (let size = 0; size <= bytes.length; size++)
    yield { what: `cut at ${size}`, bytes: bytes.subarray(0, size) };
}

function* flips({ bytes }: Made): Generator<Damage> {
  for (let bit = 0; bit < 8 * bytes.length; bit++) {
    const flipped = Buffer.from(bytes);
    flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    yield { what: `bit ${bit & 7} of byte ${bit >> 3}`, bytes: flipped };
  }
}

function* zeros({ bytes }: Made, size: number): Generator<Damage> {
  for (let from = 0; from < bytes.length; from += size) {
    yield {
      what: `${size} zeros from ${from}`,
      bytes: Buffer.from(bytes).fill(0, from, Math.min(from + size, bytes.length)),
    };
  }
}

function* lines({ bytes }: Made): Generator<Damage> {
  const all = bytes.toString('latin1').split(/(?<=\n)/);
  const of = (what: string, changed: readonly string[]): Damage => ({
    what,
    bytes: Buffer.from(changed.join(''), 'latin1'),
  });
  for (const [index, line] of all.entries()) {
    const [before, behind] = [all.slice(0, index), all.slice(index + 1)];
    yield of(`line ${index + 1} removed`, [...before, ...behind]);
    yield of(`line ${index + 1} doubled`, [...before, line, line, ...behind]);
    for (const [other, theirs] of behind.entries()) {
      const swapped = [...behind];
      swapped[other] = line;
      yield of(`lines ${index + 1} and ${index + 2 + other} swapped`, [
        ...before,
        theirs,
        ...swapped,
      ]);
    }
  }
}

/** A file of exactly 4 KiB. */
function pageOf4096(): Made {
  const sizes = Array.from({ length: 20 }, () => 2);
  const paddedBy = (bytes: number): Made =>
    made(
      sizes,
      (id) => (id === 39 ? 'x'.repeat(bytes) : `pet ${id}`),
      (id) => id % 10 === 0,
    );
  return paddedBy(4096 - paddedBy(0).bytes.length);
}

interface Tally {
  exact: number;
  refused: number;
  /**
   * By its bytes a write that a crash cut short: animals that were whole behind the damage are set
   * aside (F2).
   */
  torn: number;
}

/** Starts from each damaged file, and again from what the first start left. */
async function tallyOf(whole: Made, damages: Iterable<Damage>): Promise<Tally> {
  const tally: Tally = { exact: 0, refused: 0, torn: 0 };
  for (const { what, bytes } of damages) {
    const machine = new Machine({ [path]: bytes });
    const { disk } = machine.process();
    let texts: readonly string[];
    try {
      texts = await startTexts(disk, path);
    } catch (error) {
      hold(
        error instanceof PetstoreError && error.code === 'storage_damaged',
        `${what}: ${String(error)}`,
      );
      hold(
        machine.file(path)?.equals(bytes) === true && machine.paths.length === 1,
        `${what}: refused, but changed`,
      );
      hold(!isPrefix(bytes, whole.bytes), `${what}: refused, though a crash leaves just this`);
      tally.refused++;
      continue;
    }
    hold(
      same(await startTexts(disk, path), texts),
      `${what}: the second start serves something else`,
    );
    hold(setAside(machine, bytes), `${what}: bytes are gone that no copy holds`);
    if (same(texts, whole.texts)) tally.exact++;
    else {
      hold(
        same(texts, whole.texts.slice(0, texts.length)),
        `${what}: served are animals that were never stored`,
      );
      hold(
        texts.length >= wholeBefore(whole, bytes),
        `${what}: an animal before the damage is lost`,
      );
      hold(
        isPrefix(bytes, whole.bytes) || isUnfinished(whole, bytes),
        `${what}: an acknowledged animal is dropped in silence`,
      );
      tally.torn++;
    }
  }
  return tally;
}

/** Whether what the start cut off stands in the copy beside the file, byte for byte. */
function setAside(machine: Machine, before: Buffer): boolean {
  const after = machine.file(path) ?? Buffer.alloc(0);
  const copies = machine.paths
    .filter((name) => name !== path)
    .map((name) => machine.file(name) ?? Buffer.alloc(0));
  const kept = before.length - copies.reduce((sum, copy) => sum + copy.length, 0);
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
  if (!bytes.subarray(0, lastFrom).equals(whole.subarray(0, lastFrom))) return false;
  const rest = bytes.subarray(lastFrom);
  const text = rest.toString('latin1');
  if (!/\{"commit":\{"from":[0-9]+,"crc32":"[0-9a-f]{8}"\}\}\n/.test(text)) return true;
  const body = whole.subarray(lastFrom, whole.lastIndexOf('{"commit"'));
  if (!text.endsWith(commitOf(body, lastFrom).toString())) return false;
  const missing = [...Array(Math.ceil(bytes.length / blockBytes)).keys()].some((block) => {
    const from = Math.max(lastFrom, block * blockBytes);
    const stretch = bytes.subarray(from, (block + 1) * blockBytes);
    return stretch.length > 0 && stretch.every((byte) => byte === 0);
  });
  return missing;
}

function isPrefix(bytes: Buffer, of: Buffer): boolean {
  return bytes.length <= of.length && bytes.equals(of.subarray(0, bytes.length));
}

function same(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, index) => text === other[index]);
}

function words({ exact, refused, torn }: Tally): string {
  return `${number(exact + refused + torn)} (${number(exact)} exact, ${number(refused)} refused, ${number(torn)} torn)`;
}
