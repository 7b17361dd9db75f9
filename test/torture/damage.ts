/**
 * R5: on a damaged file, a start serves exactly the stored pets, refuses, or removes a torn tail.
 * It never serves a pet without its idempotency record.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { whole } from '../bench/report.js';
import { commitOf } from '../storage/commit-line.js';
import { cuts, flips, lines, zeros, type Damage } from '../support/damage.js';
import { made, startTexts, type Made } from './files.js';
import { blockBytes } from './inode.js';
import { Machine } from './machine.js';
import { printDetails, type TortureRow } from './row.js';
import { PetstoreError } from '../../dist/index.js';

const path = '/pets.jsonl';
const fullBatches = 60;

export const damagedFiles: TortureRow = {
  id: 'R5',
  title:
    'a file with idempotency records: cut at each byte, with each bit flipped, each 512 bytes zeroed, each line removed, doubled or swapped',
  fullS: 20,
  isAlwaysFull: true,
  run: async () => {
    const sizes = Array.from({ length: fullBatches }, (_, index) => 1 + (index % 4));
    const small = made(
      sizes,
      (id) => ['Rex', 'Tüm', '猫 "quoted"', '{"commit":{'][id % 4] ?? '',
      (id) => id % 5 === 0,
    );
    // The last batch is longer than a block of the disk, so that a crash can lose a block of it.
    const big = made([...sizes, 300], undefined, (id) => id % 3 === 0);
    const page = pageOf4096();
    const total: Tally = { exact: 0, refused: 0, torn: 0 };
    for (const [kind, intact, damages] of [
      ['cut', small, cuts(small.bytes)],
      ['with one bit flipped', page, flips(page.bytes)],
      ['with 512 bytes zeroed', big, zeros(big.bytes, 512)],
      ['with a block zeroed', big, zeros(big.bytes, blockBytes)],
      ['with changed lines', small, lines(small.bytes)],
    ] as const) {
      const tally = await tallyOf(intact, damages);
      printDetails('R5', `${textOf(tally)}, ${kind}`);
      total.exact += tally.exact;
      total.refused += tally.refused;
      total.torn += tally.torn;
    }
    return `0 silent changes in ${textOf(total)}`;
  },
};

/** The number of damaged files by the result of a start. */
interface Tally {
  exact: number;
  refused: number;
  torn: number;
}

function textOf({ exact, refused, torn }: Tally): string {
  return `${whole(exact + refused + torn)} damaged files (${whole(exact)} served exactly, ${whole(refused)} refused, ${whole(torn)} taken for a torn tail)`;
}

/** Returns a file of exactly 4 KiB. */
function pageOf4096(): Made {
  const paddedBy = (bytes: number): Made =>
    made(
      Array.from({ length: 20 }, () => 2),
      (id) => (id === 39 ? 'x'.repeat(bytes) : `pet ${id}`),
      (id) => id % 10 === 0,
    );
  return paddedBy(4096 - paddedBy(0).bytes.length);
}

/** Starts on each damaged file, checks the result, and returns the counts of all results. */
async function tallyOf(intact: Made, damages: Iterable<Damage>): Promise<Tally> {
  const tally = { exact: 0, refused: 0, torn: 0 };
  for (const { what, bytes } of damages) tally[await startFrom(what, intact, bytes)]++;
  return tally;
}

/**
 * Starts twice on a damaged file, and checks that the result is allowed: `exact` if all pets are
 * served, `refused`, or `torn` if the damage looks like a torn tail. Then the start moves the tail,
 * with any intact pets in it, to another file (F2).
 */
export async function startFrom(
  what: string,
  intact: Made,
  bytes: Buffer,
): Promise<'exact' | 'refused' | 'torn'> {
  const check = (condition: boolean, problem: string): void =>
    assert.ok(condition, `${what}: ${problem}`);
  const machine = new Machine({ [path]: bytes });
  const { disk } = machine.process();
  const texts = await startTexts(disk, path).catch((error: unknown) => {
    check(error instanceof PetstoreError && error.code === 'storage_damaged', String(error));
    return undefined;
  });
  if (texts === undefined) {
    check(
      machine.file(path)?.equals(bytes) === true && machine.paths.length === 1,
      'a start that refused has changed the file',
    );
    check(!isPrefix(bytes, intact.bytes), 'refused a file as a crash may leave it');
    return 'refused';
  }
  const again = await startTexts(disk, path);
  check(isDeepStrictEqual(again, texts), 'the second start serves other pets');
  check(isSetAside(machine, bytes), 'bytes are lost, because no copy has them');
  const stored = intact.texts.slice(0, texts.length);
  check(isDeepStrictEqual(texts, stored), 'serves pets that were never stored');
  if (texts.length === intact.texts.length) return 'exact';
  check(texts.length >= wholeBefore(intact, bytes), 'a pet before the damage is lost');
  check(
    isPrefix(bytes, intact.bytes) || isUnfinished(intact, bytes),
    'an acknowledged pet is dropped without an error',
  );
  return 'torn';
}

/** True if the start has copied all bytes that it cut off to one other file. */
function isSetAside(machine: Machine, before: Buffer): boolean {
  const after = machine.file(path) ?? Buffer.alloc(0);
  const copies = machine.paths
    .filter((name) => name !== path)
    .map((name) => machine.file(name) ?? Buffer.alloc(0));
  const kept = before.length - Buffer.concat(copies).length;
  return copies.length <= 1 && Buffer.concat([after.subarray(0, kept), ...copies]).equals(before);
}

/** Returns the number of pets before the first changed byte. */
function wholeBefore(intact: Made, bytes: Buffer): number {
  let at = 0;
  while (at < bytes.length && bytes[at] === intact.bytes[at]) at++;
  const unchanged = intact.bytes.toString('utf8', 0, at);
  return intact.texts.filter((text) => unchanged.includes(text)).length;
}

/**
 * True if a crash in the last batch may leave this file by F2. All bytes before that batch are
 * unchanged. The batch lacks its commit record; or the file ends with that record, and a block
 * before it reads as zeros.
 */
function isUnfinished({ bytes: intact, lastFrom }: Made, bytes: Buffer): boolean {
  if (!isPrefix(intact.subarray(0, lastFrom), bytes)) return false;
  const text = bytes.toString('latin1', lastFrom);
  if (!/\{"commit":\{"from":[0-9]+,"crc32":"[0-9a-f]{8}"\}\}\n/.test(text)) return true;
  const body = intact.subarray(lastFrom, intact.lastIndexOf('{"commit"'));
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
