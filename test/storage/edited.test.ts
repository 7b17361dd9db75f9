// Tests files whose line breaks or first bytes an editor or a copy tool has changed (F13).
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { checkFile, fileImport, fileStorage, fileTarget, salvageFile } from '../../dist/index.js';
import {
  committed,
  damaged,
  expectAdded,
  expectAddedOnce,
  fileWith,
  idsOf,
  newPath,
  onceOf,
  petLine,
  recordLine,
  sizeOf,
  tornTails,
  using,
} from './scene.js';

const source = 'ab'.repeat(32);
const importLine = `{"import":{"source":"${source}","place":2}}\n`;
/** A file of seven pets: two imported pets, and a third with an idempotency key. */
const sound = String(
  committed([
    importLine + petLine(1) + petLine(2),
    recordLine(onceOf('a', 'pet 3')) + petLine(3, 'Ünï'),
    petLine(4) + petLine(5),
    petLine(6) + petLine(7),
  ]),
);
const withoutEnd = sound.slice(0, -1);
const crlf = sound.replaceAll('\n', '\r\n');

const edits: Readonly<Record<string, string>> = {
  'without its last newline': withoutEnd,
  'with CR LF at its end': `${withoutEnd}\r\n`,
  'with CR at its end': `${withoutEnd}\r`,
  'with blanks at its end and no newline': `${withoutEnd} \t`,
  'with a newline added': `${sound}\n`,
  'with blank lines added': `${sound}\n\n \t\r\n\r\n`,
  'with blank lines added and no newline': `${sound}\n  `,
  'with CR LF everywhere': crlf,
  'with CR LF everywhere but at its end': crlf.slice(0, -2),
  'with CR LF everywhere and CR at its end': crlf.slice(0, -1),
  'with CR LF in its last batch': sound.slice(0, -200) + sound.slice(-200).replaceAll('\n', '\r\n'),
  'with a byte order mark': `\uFEFF${sound}`,
  'with a byte order mark and CR LF, without its last newline': `\uFEFF${crlf.slice(0, -2)}`,
};

/** Expects that a server serves all seven pets of a file, twice, and adds to it. */
async function expectServed(path: string) {
  assert.equal((await checkFile(path)).verdict, 'sound');
  for (let added = 0; added < 2; added++)
    await using(path, async (storage) => {
      assert.equal(storage.size, 7 + added);
      assert.equal((await storage.get(3n))?.name, 'Ünï');
      await expectAddedOnce(storage, 3n, 'a', { name: 'pet 3', categoryId: 5n });
      await expectAdded(storage, BigInt(8 + added));
    });
  assert.equal((await checkFile(path)).verdict, 'sound');
  assert.deepEqual(tornTails(path), []);
}

for (const [what, content] of Object.entries(edits)) {
  test(`F13 serves every pet and key of a file ${what}, and adds to it`, async () => {
    const path = fileWith(content);
    await expectServed(path);
    const bytes = Buffer.from(content);
    assert.deepEqual(readFileSync(path).subarray(0, bytes.length), bytes, 'only appends');
  });

  test(`F13 checks and salvages all pets and keys of a file ${what}`, async () => {
    const path = fileWith(content);
    const { verdict, animals, idempotencyKeys } = await checkFile(path);
    assert.deepEqual([verdict, animals, idempotencyKeys], ['sound', 7, 1]);
    const out = `${path}.saved`;
    assert.deepEqual(await salvageFile(path, out), { animals: 7, missing: [], leftOut: [] });
    assert.doesNotMatch(readFileSync(out, 'utf8'), /\r|\uFEFF/);
    await expectServed(out);
  });

  test(`F13 continues an import and a copy into a file ${what}`, async () => {
    const path = fileWith(content);
    const again = await fileImport(path, source);
    assert.deepEqual([again.start, again.isEmpty], [2, false]);
    await again.add([{ name: 'h', categoryId: 1n }]);
    await again.close();
    assert.equal(await sizeOf(path), 8);

    const target = await fileTarget(path);
    await target.adopt([]);
    await target.close();
    assert.equal(await sizeOf(path), 8);
    assert.deepEqual(tornTails(path), []);
  });
}

test('F13 serves an imported batch that lacks only its last newline', async () => {
  const path = newPath();
  const target = await fileImport(path, source);
  const drafts = Array.from({ length: 1_000 }, (_, at) => ({ name: `${at}`, categoryId: 1n }));
  await target.add(drafts);
  await target.close();
  writeFileSync(path, readFileSync(path).subarray(0, -1));
  await using(path, async (storage) => {
    assert.equal(storage.size, 1_000);
    await expectAdded(storage, 1_001n);
  });
});

test('F13 serves a file that is converted to CR LF again after inserts', async () => {
  const path = fileWith(sound);
  for (const size of [7, 9, 11]) {
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll(/\r?\n/g, '\r\n'));
    await using(path, async (storage) => {
      assert.equal(storage.size, size);
      await expectAdded(storage, BigInt(size + 1));
      await expectAdded(storage, BigInt(size + 2));
    });
  }
});

test('F13 reads the text after a commit record in the same line as a line of its own', async () => {
  const path = fileWith(withoutEnd + petLine(8));
  await using(path, async (storage) => assert.equal(storage.size, 8));
  assert.equal((await checkFile(path)).verdict, 'sound');
  const torn = fileWith(`${withoutEnd}{"id":8,"na`);
  await using(torn, async (storage) => assert.equal(storage.size, 7));
  assert.deepEqual(tornTails(torn).map(String), ['{"id":8,"na']);
  assert.equal(await sizeOf(torn), 7);
});

test('F13 serves a hand-written file with CR LF, a byte order mark or no last newline', async () => {
  const [first, second] = [petLine(1).trimEnd(), petLine(2).trimEnd()];
  for (const content of [
    `${first}\n${second}`,
    `${first}\r\n${second}`,
    `\uFEFF${first}\r\n${second}\r\n`,
    `\uFEFF${first}\n${second}\r`,
    `${first}\n${second}\n\n\n`,
  ]) {
    const path = fileWith(content);
    for (const ids of [
      [1, 2],
      [1, 2, 3],
    ]) {
      await using(path, async (storage) => {
        assert.deepEqual(await idsOf(storage), ids);
        await expectAdded(storage, BigInt(ids.length + 1));
      });
    }
    assert.equal((await checkFile(path)).verdict, 'sound');
  }
});

test('F13 refuses a UTF-16 file with the command that converts it', async () => {
  const text = `\uFEFF${crlf}`;
  const path = fileWith(Buffer.from(text, 'utf16le'));
  await assert.rejects(fileStorage(path), { ...damaged, message: /`iconv -f UTF-16 -t UTF-8`/ });
  assert.match((await checkFile(path)).problem?.what ?? '', /UTF-16/);
  writeFileSync(path, text);
  await expectServed(path);
});

test('F13 treats a file with only a byte order mark as empty', async () => {
  const path = fileWith('\uFEFF');
  await using(path, async (storage) => await expectAdded(storage, 1n));
  assert.equal(await sizeOf(path), 1);
});

test('F3 refuses a commit record whose checksum does not fit, with and without its newline', async () => {
  for (const content of [
    withoutEnd.replace('pet 7', 'pet 8'),
    crlf.slice(0, -2).replace('pet 7', 'pet 8'),
    crlf.replace('pet 2', 'pet 8'),
    sound.replace(petLine(4), `${petLine(4)}\n`),
    // A whole batch is missing, so that the offsets of later batches do not fit.
    `${crlf.slice(0, crlf.indexOf('{"idempotency'))}${crlf.slice(crlf.indexOf('{"id":4'))}`,
  ]) {
    const path = fileWith(content);
    await assert.rejects(fileStorage(path), damaged);
    assert.equal(readFileSync(path, 'utf8'), content);
    assert.equal((await checkFile(path)).verdict, 'damaged');
  }
});
