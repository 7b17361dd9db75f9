/**
 * R5: on a damaged file, a start serves the pets exactly, refuses, or cuts a torn tail off. It
 * never serves a pet without its idempotency record.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { whole } from '../bench/report.js';
import { commitOf } from '../storage/commit-line.js';
import { cuts, flips, lines, zeros, type Damage } from '../support/damage.js';
import { made, startTexts, type Made } from './files.js';
import { blockBytes } from './inode.js';
import { Machine } from './machine.js';
import type { TortureRow } from './row.js';
import { PetstoreError } from '../../dist/index.js';

const path = '/pets.jsonl';
const fullBatches = 60;

export const damagedFiles: TortureRow = {
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
    // The last batch is long enough to lack a block of the disk.
    const big = made([...sizes, 300], undefined, (id) => id % 3 === 0);
    const page = pageOf4096();
    const tallies = [
      await tallyOf('cuts', small, cuts(small.bytes)),
      await tallyOf('bits', page, flips(page.bytes)),
      await tallyOf('zeroed 512 bytes', big, zeros(big.bytes, 512)),
      await tallyOf('zeroed blocks', big, zeros(big.bytes, blockBytes)),
      await tallyOf('lines', small, lines(small.bytes)),
    ];
    return `0 silent changes: ${tallies.join('; ')}`;
  },
};

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

/**
 * Starts on each damaged file, and again on what the first start left. Returns the counts of files
 * that were served exactly, refused, or taken for a torn write. In these, intact pets after the
 * damage are moved to the torn tail (F2).
 */
async function tallyOf(name: string, intact: Made, damages: Iterable<Damage>): Promise<string> {
  const tally = { exact: 0, refused: 0, torn: 0 };
  for (const { what, bytes } of damages) tally[await startFrom(what, intact, bytes)]++;
  const { exact, refused, torn } = tally;
  return `${name} ${whole(exact + refused + torn)} (${whole(exact)} exact, ${whole(refused)} refused, ${whole(torn)} torn)`;
}

/** Starts on a damaged file and checks the result. */
export async function startFrom(
  what: string,
  intact: Made,
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
    hold(!isPrefix(bytes, intact.bytes), 'refused, though a crash leaves just this');
    return 'refused';
  }
  const again = await startTexts(disk, path);
  hold(isDeepStrictEqual(again, texts), 'the second start serves something else');
  hold(isSetAside(machine, bytes), 'bytes are gone that no copy holds');
  const stored = intact.texts.slice(0, texts.length);
  hold(isDeepStrictEqual(texts, stored), 'served are animals that were never stored');
  if (texts.length === intact.texts.length) return 'exact';
  hold(texts.length >= wholeBefore(intact, bytes), 'an animal before the damage is lost');
  hold(
    isPrefix(bytes, intact.bytes) || isUnfinished(intact, bytes),
    'an acknowledged animal is dropped in silence',
  );
  return 'torn';
}

/** True if the copy beside the file has exactly the bytes that the start cut off. */
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
 * unchanged. The batch lacks its commit record, or the record is at the very end and a block before
 * it reads as zeros.
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
