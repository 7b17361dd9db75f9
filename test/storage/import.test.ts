// F11, F12: what is imported comes whole with its place or not at all, wherever a crash has cut or
// emptied the file.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import {
  checkFile,
  fileImport,
  fileStorage,
  PetstoreError,
  salvageFile,
} from '../../dist/index.js';
import { folder } from '../support/process.js';

const source = 'ab'.repeat(32);
const drafts = Array.from({ length: 400 }, (_, index) => ({
  name: `${index + 1}`.padEnd(40, 'x'),
  categoryId: 1n,
}));

/** A file with two imported batches of 400 animals. */
async function imported(
  t: TestContext,
): Promise<{ readonly path: string; readonly bytes: Buffer; readonly end: number }> {
  const path = join(folder(t), 'pets.jsonl');
  const target = await fileImport(path, source);
  assert.deepEqual([target.start, target.isEmpty], [0, true]);
  assert.equal(await target.add(drafts), 400);
  const end = readFileSync(path).length;
  assert.equal(await target.add(drafts), 800);
  await target.close();
  return { path, bytes: readFileSync(path), end };
}

/** How many animals a server would have, and the place of the import. */
async function reopened(
  path: string,
): Promise<readonly [animals: number | undefined, place: number]> {
  const storage = await fileStorage(path);
  const { size } = storage;
  await storage.close();
  const target = await fileImport(path, source);
  await target.close();
  return [size, target.start];
}

describe('an import into a file', () => {
  test('F11 it is as a server left it: same lines, sound, and another source has a place of its own', async (t) => {
    const { path, bytes } = await imported(t);
    assert.match(
      bytes.toString(),
      new RegExp(`^{"import":{"source":"${source}","place":400}}\n{"id":1,"name":"1x`),
    );
    const { verdict, animals, commits } = await checkFile(path);
    assert.deepEqual([verdict, animals, commits], ['sound', 800, 2]);
    assert.deepEqual(await reopened(path), [800, 800]);
    const other = await fileImport(path, 'cd'.repeat(32));
    assert.deepEqual([other.start, other.isEmpty], [0, false]);
    await other.add([{ name: 'c', categoryId: 3n }]);
    await other.close();
    assert.deepEqual(await reopened(path), [801, 800]);
  });

  test('F12 cut at any byte, each batch is there whole or not at all, and the place says which', async (t) => {
    const { path, bytes, end } = await imported(t);
    const cuts = [
      1,
      2,
      5,
      30,
      100,
      107,
      108,
      109,
      5_000,
      end - 61,
      end - 1,
      end,
      end + 1,
      end + 30,
      end + 9_000,
    ];
    for (const cut of [...cuts, bytes.length - 60, bytes.length - 1, bytes.length]) {
      writeFileSync(path, bytes.subarray(0, cut));
      // A commit line that lacks its newline alone is whole.
      const whole = cut === bytes.length ? 800 : cut >= end ? 400 : 0;
      assert.deepEqual(await reopened(path), [whole, whole], `cut at ${cut}`);
    }
    assert.ok(readdirSync(join(path, '..')).length > 10, 'what was cut off is kept aside');
  });

  test('F12 a block that was never written takes all of its batch along', async (t) => {
    const { path, bytes, end } = await imported(t);
    for (const from of [Math.ceil(end / 4_096) * 4_096, Math.ceil(end / 4_096) * 4_096 + 8_192]) {
      writeFileSync(path, Buffer.from(bytes).fill(0, from, from + 4_096));
      assert.deepEqual(await reopened(path), [400, 400], `zeros from ${from}`);
    }
  });

  test('F3 damage in an imported batch is damage: nothing of a batch that was acknowledged is cut off', async (t) => {
    const { path, bytes, end } = await imported(t);
    const damaged: (readonly [what: string, bytes: Buffer])[] = [
      ['a byte', Buffer.concat([bytes.subarray(0, 500), Buffer.from('\x01'), bytes.subarray(501)])],
      [
        'a letter',
        Buffer.concat([bytes.subarray(0, end + 200), Buffer.from('yy'), bytes.subarray(end + 202)]),
      ],
      ['an import in the middle', Buffer.concat([bytes.subarray(0, end).subarray(109), bytes])],
    ];
    for (const [what, other] of damaged) {
      writeFileSync(path, other);
      await assert.rejects(
        fileStorage(path),
        (error) => error instanceof PetstoreError && error.code === 'storage_damaged',
        what,
      );
      assert.deepEqual(readFileSync(path), other, what);
    }
    const { animals } = await salvageFile(path, `${path}.saved`);
    assert.ok(animals >= 400, `${animals}`);
  });
});
