// What a start makes of a file: torn tails, files by hand, damage (F2, F3).
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
import { setImmediate as nextTurn } from 'node:timers/promises';
import { checkFile, fileStorage } from '../../dist/file/index.js';
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
  sizeOf,
  tornTails,
  unusable,
  using,
} from './scene.js';
import { diskWith, unlocked } from '../support/disk.js';
import { gate } from '../support/waiting.js';

test('F2 whole lines after the last commit are kept and committed, the torn rest is set aside', async () => {
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
  assert.ok(!readFileSync(path, 'utf8').includes('\n\n'), 'no line is empty');
});

test('F2 what a start has read is on the disk before anything is served', async () => {
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
  await nextTurn();
  assert.equal(isOpen, false);
  synced.open();
  await (await opening).close();
});

test('F2 a second torn tail of the same millisecond does not replace the first: the next start sets it aside', async () => {
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

test('F2 sets a torn tail of a file aside whose own name is as long as the disk allows', async () => {
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

test('F7 refuses a file whose own name is too long, and names the fix', async () => {
  const path = join(dirname(fileWith('')), 'x'.repeat(256));
  await assert.rejects(fileStorage(path), { ...unusable, message: /name a file with a shorter/ });
});

test('F2 sets a batch aside of which a block and the block of its last newline were not written', async () => {
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
  assert.equal(await sizeOf(proved), 3, 'the commit proves it');
  assert.deepEqual(tornTails(proved).map(String), ['\0']);

  const blockMissing = Buffer.from(newlineMissing).fill(0, 4_096, 8_192);
  const torn = fileWith(blockMissing);
  assert.equal(await sizeOf(torn), 2);
  assert.equal(tornTails(torn).length, 1);
});

test('F2 a file by hand is served in our own text: other order, white space, escapes, members, empty lines, no newline', async () => {
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

test('F2 an animal by hand with the last id of int64 leaves no id to give', async () => {
  await using(fileWith(petLine(1).replace('1', '9223372036854775807')), async (storage) => {
    await expectRefused(storage);
    await expectUnready(storage);
    assert.equal((await storage.get(2n ** 63n - 1n))?.name, 'pet 1');
  });
});

test('F2 a broken last commit line costs no animal', async () => {
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

test('F2 a block of the last batch that the disk never wrote is a torn tail though its commit line stands', async () => {
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

test('F3 what no crash explains is refused with file, line and byte, and the file stays as it is', async () => {
  const [one, both] = [String(batches(2)), String(batches(2, 2))];
  const emptyCommit = commitOf(Buffer.alloc(0), 5);
  const checksum = /line 3, byte 120: .*checksum/;
  const cases: readonly (readonly [what: string, file: string, message: RegExp])[] = [
    ['a changed letter', both.replace('pet 2', 'pet X'), checksum],
    ['a changed letter of the last batch', one.replace('pet 2', 'pet X'), checksum],
    ['no JSON', both.replace('"id":2', '"id":!'), /line 2, byte 60: .*JSON/],
    ['a bad field', both.replace('"id":2', '"id":0'), /line 2, byte 60: id must/],
    ['an id that does not grow', both.replace('"id":2', '"id":1'), /line 2, byte 60: id 1 follows/],
    ['a batch twice', one + one, /line 4, byte 161: id 1 follows/],
    ['a commit of elsewhere', `${one}${emptyCommit}`, /line 4, byte 161: a commit from byte 5/],
    ['a commit line taken out', one.slice(0, 120) + both.slice(161), /a commit from byte 161/],
    ['a missing newline', one.replace('"}\n{"commit', '"} {"commit'), /line 2, byte 60/],
  ];
  for (const [what, file, message] of cases) {
    const path = fileWith(file);
    for (const [options, told] of [
      [{}, message],
      [{}, /^[^\n]*petstore check [^\n]*$/],
      [{ hint: 'ask Ann' }, new RegExp(`^${path} [^\n]*; nothing was changed: ask Ann$`)],
      [{ mend: 'ask Bob' }, /; nothing was changed: ask Bob$/],
      [{ hint: 'ask Ann', mend: 'ask Bob' }, /: ask Ann$/],
    ] as const)
      await assert.rejects(fileStorage(path, options), { ...damaged, message: told }, what);
    assert.equal(readFileSync(path, 'utf8'), file, what);
    assert.deepEqual(tornTails(path), [], what);
    assert.equal((await checkFile(path)).verdict, 'damaged', what);
  }
});

test('F3 more than 256 MiB after the last sound line are no torn write of ours', async () => {
  const path = fileWith(`${petLine(1)}{"id":2,\n`);
  assert.equal((await checkFile(path)).verdict, 'torn');
  truncateSync(path, petLine(1).length + 2 ** 28 + 1);
  await assert.rejects(fileStorage(path), { ...damaged, message: /line 2, byte 60/ });
  assert.equal(statSync(path).size, petLine(1).length + 2 ** 28 + 1);
});

test('a start that takes long says each second how far it has come, and a short one nothing', async () => {
  const file = batches(40_000);
  for (const [msBetween, told] of [
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
    assert.deepEqual(progress, Array(told).fill(['info', true, file.length]));
  }
});
