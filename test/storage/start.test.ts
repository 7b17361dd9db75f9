// Tests starts on files with torn tails, on hand-written files and on damaged files (F2, F3).
import assert from 'node:assert/strict';
import {
  appendFileSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTick } from 'node:timers/promises';
import { checkFile, fileImport, fileStorage } from '../../dist/file/index.js';
import { commitOf } from './commit-line.js';
import {
  batches,
  damaged,
  expectAdded,
  expectRefused,
  expectUnready,
  fileWith,
  namesOf,
  petLine,
  rex,
  sizeOf,
  tornTails,
  unavailable,
  unusable,
  using,
} from './scene.js';
import { diskWith, systemError, unlocked } from '../support/disk.js';
import { gate } from '../support/waiting.js';

test('F2 commits whole lines after the last commit, and moves the torn rest to a file', async () => {
  const torn = '{"id":5,"na';
  const path = fileWith(batches(2, 1) + petLine(4) + torn);
  const said: unknown[] = [];
  const clock = () => Date.UTC(2026, 10, 21, 7, 30);
  const storage = await fileStorage(path, { clock, log: (...line) => said.push(line) });
  assert.equal(storage.size, 4);
  await expectAdded(storage, 5n);
  await storage.close();
  const copy = `${path}.torn-2026-11-21T07-30-00.000Z`;
  assert.equal(readFileSync(copy, 'utf8'), torn);
  assert.equal(statSync(copy).mode & 0o777, 0o600);
  assert.match(
    JSON.stringify(said),
    new RegExp(`"warn".*"bytes":${torn.length},.*"copy":"${copy}"`),
  );
  const { verdict, commits } = await checkFile(path);
  assert.deepEqual([verdict, commits], ['sound', 4]);
  assert.ok(!readFileSync(path, 'utf8').includes('\n\n'), 'writes no empty line');
});

test('F2 syncs the file at a start before it serves pets', async () => {
  const path = fileWith(batches(2));
  const disk = diskWith({});
  const syncing = gate();
  const synced = gate();
  disk.datasync = () => (syncing.open(), synced.opened);
  let isOpen = false;
  const opening = fileStorage(path, { disk }).finally(() => {
    isOpen = true;
    syncing.open();
  });
  await syncing.opened;
  await nextTick();
  assert.equal(isOpen, false);
  synced.open();
  await (await opening).close();
});

test('F2 never replaces the copy of an earlier torn tail', async () => {
  const path = fileWith(batches(1));
  const startAt = async (now: number) => (await fileStorage(path, { clock: () => now })).close();
  appendFileSync(path, '{"a');
  await startAt(0);
  appendFileSync(path, '{"b');
  await assert.rejects(startAt(0), unusable);
  assert.deepEqual(tornTails(path).map(String), ['{"a']);
  await startAt(1);
  assert.deepEqual(tornTails(path).map(String), ['{"a', '{"b']);
});

test('F2 changes nothing and leaves no partial copy if the disk has no room for a torn tail', async () => {
  const whole = `${batches(1)}{"id":2,"na`;
  const path = fileWith(whole);
  const disk = diskWith({ write: () => Promise.reject(systemError('ENOSPC')) });
  await assert.rejects(fileStorage(path, { disk }), unusable);
  assert.deepEqual(tornTails(path), []);
  assert.equal(readFileSync(path, 'utf8'), whole);
});

test('F2 copies the torn tail of a file whose name is as long as the disk allows', async () => {
  for (const name of ['x'.repeat(226), 'x'.repeat(255), 'ü'.repeat(127), `猫${'x'.repeat(252)}`]) {
    const path = join(dirname(fileWith('')), name);
    for (const [at, torn] of ['{"a', '{"b'].entries()) {
      writeFileSync(path, at === 0 ? batches(2) : readFileSync(path));
      appendFileSync(path, torn);
      const options = { disk: unlocked, clock: () => at };
      await (await fileStorage(path, options)).close();
    }
    assert.equal(await sizeOf(path), 2);
    const copies = readdirSync(dirname(path)).filter((each) => each.includes('.torn-'));
    assert.deepEqual(
      copies.sort().map((each) => readFileSync(join(dirname(path), each), 'utf8')),
      ['{"a', '{"b'],
    );
    for (const copy of copies) assert.equal(copy.slice(0, 60), name.slice(0, 60));
  }
});

test('F7 refuses a file whose name is too long, and names the fix', async () => {
  const path = join(dirname(fileWith('')), 'x'.repeat(256));
  await assert.rejects(fileStorage(path), { ...unusable, message: /name a file with a shorter/ });
});

test('F2 cuts off a batch that lacks a block and the block of its last newline', async () => {
  const first = batches(1);
  // The last newline of the second batch is the first byte of a block.
  const [line, other] = [petLine(2), petLine(3)];
  const ending = commitOf(Buffer.from(''), first.length).length;
  const padding = 3 * 4_096 + 1 - first.length - line.length - other.length - ending;
  const body = Buffer.from(line + petLine(3, `pet 3${'x'.repeat(padding)}`));
  const whole = Buffer.concat([first, body, commitOf(body, first.length)]);
  assert.equal(whole.length, 3 * 4_096 + 1);

  const newlineMissing = Buffer.from(whole).fill(0, whole.length - 1);
  const proved = fileWith(newlineMissing);
  assert.equal(await sizeOf(proved), 3, 'the commit record proves the batch');
  assert.deepEqual(tornTails(proved).map(String), ['\0']);

  const blockMissing = Buffer.from(newlineMissing).fill(0, 4_096, 8_192);
  const torn = fileWith(blockMissing);
  assert.equal(await sizeOf(torn), 2);
  assert.equal(tornTails(torn).length, 1);
});

test('F2 serves a hand-written file with other order, white space, escapes and members', async () => {
  const path = fileWith(
    '\uFEFF{ "categoryId": 5e0, "name": "R\\u0065x", "id": 3, "age": {"commit": 1} }\r\n\n \t\r\n{"id":7,"name":"Tom","categoryId":7}',
  );
  await using(path, async (storage) => {
    assert.deepEqual(await storage.texts?.list({ limit: 5 }), {
      texts: ['{"id":3,"name":"Rex","categoryId":5}', '{"id":7,"name":"Tom","categoryId":7}'],
    });
    await expectAdded(storage, 8n);
  });
  assert.equal((await checkFile(path)).verdict, 'sound');
  assert.deepEqual(await using(path, namesOf), ['Rex', 'Tom', 'Rex']);
});

test('F2 refuses inserts after a hand-written pet with the greatest id', async () => {
  await using(fileWith(petLine(1).replace('1', '9223372036854775807')), async (storage) => {
    await expectRefused(storage);
    await expectUnready(storage);
    assert.equal((await storage.get(2n ** 63n - 1n))?.name, 'pet 1');
  });
});

test('C31 refuses a batch or an import of more pets than there are ids left', async () => {
  const path = fileWith(petLine(1).replace('1', `${2n ** 63n - 2n}`));
  const target = await fileImport(path, '0'.repeat(64));
  await assert.rejects(target.add([rex, rex]), unavailable);
  await target.close();
  await using(path, async (storage) => {
    await Promise.all([expectRefused(storage), expectRefused(storage)]);
    await expectAdded(storage, 2n ** 63n - 1n);
  });
  assert.equal(await sizeOf(path), 2);
});

test('F2 keeps all pets of a file whose last commit record is broken', async () => {
  const sound = batches(2, 2);
  for (const [at, byte] of [
    [sound.length - 1, 0x58],
    [sound.length - 8, 0x58],
    [sound.length - 8, 0],
  ] as const) {
    const file = Buffer.from(sound);
    file[at] = byte;
    const path = fileWith(file);
    assert.equal((await checkFile(path)).verdict, 'torn');
    assert.equal(await sizeOf(path), 4);
    assert.equal(tornTails(path).length, 1);
  }
});

test('F2 cuts off the last batch if one of its blocks was not written', async () => {
  const file = batches(10, 300);
  const blockBytes = statSync('.').blksize;
  const from = (Math.floor(batches(10).length / blockBytes) + 1) * blockBytes;
  assert.ok(from + blockBytes < file.length);
  const path = fileWith(Buffer.from(file).fill(0, from, from + blockBytes));
  const size = await sizeOf(path);
  assert.ok(size > 10 && size < 310);
  assert.equal(tornTails(path).length, 1);

  const atBatch = fileWith(Buffer.from(file).fill(0, batches(10).length, from));
  assert.equal(await sizeOf(atBatch), 10);

  for (const [a, b] of [
    [from, from + blockBytes - 1],
    [from + 1, from + blockBytes],
    [from + 512, from + 1024],
  ] as const) {
    await assert.rejects(fileStorage(fileWith(Buffer.from(file).fill(0, a, b))), damaged);
  }
});

test('F3 refuses damage with file, line and byte, and does not change the file', async () => {
  const [one, both] = [String(batches(2)), String(batches(2, 2))];
  const emptyCommit = commitOf(Buffer.alloc(0), 5);
  const checksum = /line 3, byte 120: .*checksum/;
  const cases: readonly (readonly [what: string, file: string, message: RegExp])[] = [
    ['a changed letter', both.replace('pet 2', 'pet X'), checksum],
    ['a changed letter of the last batch', one.replace('pet 2', 'pet X'), checksum],
    ['invalid JSON', both.replace('"id":2', '"id":!'), /line 2, byte 60: .*JSON/],
    ['a bad field', both.replace('"id":2', '"id":0'), /line 2, byte 60: id must/],
    [
      'an id that does not ascend',
      both.replace('"id":2', '"id":1'),
      /line 2, byte 60: id 1 follows/,
    ],
    ['a batch twice', one + one, /line 4, byte 161: id 1 follows/],
    [
      'a commit record with another offset',
      `${one}${emptyCommit}`,
      /line 4, byte 161: a commit from byte 5/,
    ],
    ['a missing commit record', one.slice(0, 120) + both.slice(161), /a commit from byte 161/],
    ['a missing newline', one.replace('"}\n{"commit', '"} {"commit'), /line 2, byte 60/],
  ];
  for (const [what, file, message] of cases) {
    const path = fileWith(file);
    for (const [options, expected] of [
      [{}, message],
      [{}, /^[^\n]*petstore check [^\n]*$/],
      [{ hint: 'ask Ann' }, new RegExp(`^${path} [^\n]*; nothing was changed: ask Ann$`)],
      [{ mend: 'ask Bob' }, /; nothing was changed: ask Bob$/],
      [{ hint: 'ask Ann', mend: 'ask Bob' }, /: ask Ann$/],
    ] as const)
      await assert.rejects(fileStorage(path, options), { ...damaged, message: expected }, what);
    assert.equal(readFileSync(path, 'utf8'), file, what);
    assert.deepEqual(tornTails(path), [], what);
    assert.equal((await checkFile(path)).verdict, 'damaged', what);
  }
});

test('F3 refuses a torn tail of more than 256 MiB', async () => {
  const path = fileWith(`${petLine(1)}{"id":2,\n`);
  assert.equal((await checkFile(path)).verdict, 'torn');
  truncateSync(path, petLine(1).length + 2 ** 28 + 1);
  await assert.rejects(fileStorage(path), { ...damaged, message: /line 2, byte 60/ });
  assert.equal(statSync(path).size, petLine(1).length + 2 ** 28 + 1);
});

test('logs the progress of a long start each second', async () => {
  const file = batches(40_000);
  for (const [msBetween, count] of [
    [400, 1],
    [0, 0],
  ] as const) {
    let now = 0;
    const progress: unknown[] = [];
    const storage = await fileStorage(fileWith(file), {
      clock: () => (now += msBetween),
      log: (level, message, fields) => {
        if (message !== 'reading the storage file') return;
        const { read, size } = Object(fields);
        progress.push([level, read > 0 && read < file.length, size]);
      },
    });
    await storage.close();
    assert.deepEqual(progress, Array(count).fill(['info', true, file.length]));
  }
});
