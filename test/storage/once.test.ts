/**
 * Idempotency keys in a file: the record before its animal, through restarts, faults of the disk,
 * torn tails and damage.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { atEnd } from '../support/at-end.js';
import { checkFile, fileStorage, salvageFile } from '../../dist/file/index.js';
import { nodeDisk, type Disk } from '../../dist/journal/index.js';
import { textsOf } from '../../dist/engine/index.js';
import { commitOf } from './commit-line.js';
import { dayMs, inFlight, insertOnce, insertTextOnce, mismatch, onceOf } from './once.js';
import { fileInMemory, fileWith, newPath, petLine, tornTails, using } from './scene.js';
import { diskWith, systemError } from '../support/disk.js';
import { gate } from '../support/waiting.js';
import { type IdempotencyKeyUse, type PetStorage, PetstoreError } from '../../dist/index.js';

const rex = { name: 'Rex', categoryId: 5n } as const;
const at = 1_795_132_800_000;
const unavailable = { name: 'PetstoreError', code: 'unavailable' };
const damaged = { name: 'PetstoreError', code: 'storage_damaged' };

/** A record's line, written here by hand, so that the code does not prove itself. */
function recordLine({ key, body, at }: IdempotencyKeyUse): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}\n`;
}

/** Batches by hand: each animal with a record where its name is that of a key, `-` being none. */
function keyedBatches(...batches: readonly (readonly string[])[]): Buffer {
  let file = Buffer.alloc(0);
  let id = 0;
  for (const names of batches) {
    const body = Buffer.from(
      names
        .map((name) => (name === '-' ? '' : recordLine(onceOf(name))) + petLine(++id, name))
        .join(''),
    );
    file = Buffer.concat([file, body, commitOf(body, file.length)]);
  }
  return file;
}

test('the record stands directly before its animal, in the same batch', async () => {
  const path = newPath();
  await using(path, (storage) =>
    Promise.all([
      storage.insert(rex),
      insertOnce(storage, rex, onceOf('a')),
      insertOnce(storage, rex, onceOf('b', 'other', 0)),
    ]),
  );
  const animal = (id: number): string => `{"id":${id},"name":"Rex","categoryId":5}\n`;
  const body =
    animal(1) +
    recordLine(onceOf('a')) +
    animal(2) +
    recordLine(onceOf('b', 'other', 0)) +
    animal(3);
  assert.equal(readFileSync(path, 'utf8'), body + commitOf(Buffer.from(body), 0).toString());
});

test('a repeat behind a restart has the first animal for 24 hours by the keys alone, whatever the clock of the start, and the file is not written to', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    await insertOnce(storage, rex, onceOf('a'));
    await insertOnce(storage, rex, onceOf('b', 'body', at + 1));
  });
  const before = readFileSync(path);
  for (const clock of [() => 0, () => at + dayMs, () => at + 365 * dayMs]) {
    await using(
      path,
      async (storage) => {
        assert.equal((await insertOnce(storage, rex, onceOf('a', 'body', at + dayMs - 1))).id, 1n);
        await assert.rejects(
          insertOnce(storage, rex, onceOf('a', 'other', at + dayMs - 1)),
          mismatch,
        );
        assert.equal((await insertOnce(storage, rex, onceOf('b', 'body', at + dayMs))).id, 2n);
      },
      { clock },
    );
  }
  assert.deepEqual(readFileSync(path), before);
  await using(path, async (storage) => {
    assert.equal((await insertOnce(storage, rex, onceOf('a', 'body', at + dayMs))).id, 3n);
    assert.equal((await insertOnce(storage, rex, onceOf('b', 'body', at + dayMs))).id, 2n);
  });
  await using(path, async (storage) => {
    assert.equal(
      (await insertOnce(storage, rex, onceOf('a', 'body', at + dayMs))).id,
      3n,
      'of two records of a key the later counts',
    );
    assert.equal(storage.size, 3);
  });
});

test('records stand for their animals however long those are, wherever the pieces of the file end', async () => {
  const piece = 2 ** 20;
  const head = recordLine(onceOf('first')) + petLine(1, 'x');
  const tail = recordLine(onceOf('last')) + petLine(3, 'last');
  // From a record that ends a piece, byte by byte, to one that begins the next.
  for (let over = -4; over < tail.length + 4; over += 3) {
    const filler = 'x'.repeat(piece - head.length - petLine(2, '').length - over);
    const body = Buffer.from(head + petLine(2, filler) + tail);
    await using(fileWith(Buffer.concat([body, commitOf(body, 0)])), async (storage) => {
      assert.equal(storage.size, 3);
      assert.equal((await insertOnce(storage, rex, onceOf('last'))).id, 3n);
    });
  }
  const long = Buffer.from(recordLine(onceOf('long')) + petLine(1, 'x'.repeat(3 * piece)));
  await using(fileWith(Buffer.concat([long, commitOf(long, 0)])), async (storage) => {
    assert.equal((await insertOnce(storage, rex, onceOf('long'))).name.length, 3 * piece);
  });
});

test('a person may have written the animal behind a record anew', async () => {
  const path = fileWith(
    `${recordLine(onceOf('a'))}{ "name": "R\\u0065x", "id": 7, "categoryId": 5.0 }`,
  );
  await using(path, async (storage) => {
    assert.deepEqual(await insertOnce(storage, rex, onceOf('a')), { id: 7n, ...rex });
    assert.equal((await storage.insert(rex)).id, 8n);
  });
  assert.equal((await checkFile(path)).idempotencyKeys, 1);
});

/**
 * Which animals a start serves from a file, and which keys have one of them; 'refused' leaves the
 * file untouched.
 */
async function outcome(
  file: Uint8Array,
  keys: readonly string[],
): Promise<
  | { readonly names: readonly string[]; readonly known: readonly string[]; readonly path: string }
  | 'refused'
> {
  const path = fileInMemory(file);
  try {
    return await using(path, async (storage) => {
      const names = (await storage.list({ limit: 1000 })).map(({ name }) => name);
      const known: string[] = [];
      for (const key of keys) {
        // A body that none of them had tells known keys from new ones, and adds nothing to those.
        const found = await insertOnce(storage, rex, onceOf(key, 'another')).catch(
          (error) => error.code,
        );
        if (found === mismatch.code) known.push(key);
      }
      return { names, known, path };
    });
  } catch (error) {
    assert.ok(error instanceof PetstoreError && error.code === 'storage_damaged', String(error));
    assert.deepEqual(readFileSync(path), Buffer.from(file));
    assert.equal((await checkFile(path)).verdict, 'damaged');
    return 'refused';
  }
}

const keys = ['a', 'b', 'c', 'd', 'e'];
const sound = keyedBatches(['a'], ['-', 'b', 'c'], ['-'], ['d', 'e', '-']);
const soundNames = ['a', '-', 'b', 'c', '-', 'd', 'e', '-'];

test('F2 a file cut anywhere has no animal without its record and no record without its animal', async () => {
  for (let size = 0; size <= sound.length; size++) {
    // Around each line's end, and here and there between; the torture cuts at every byte (R5).
    if (size % 17 !== 0 && !sound.subarray(Math.max(0, size - 2), size + 2).includes(0x0a))
      continue;
    const file = sound.subarray(0, size);
    const result = await outcome(file, keys);
    assert.ok(result !== 'refused', `cut at ${size}`);
    const text = String(file);
    const whole = soundNames.filter((name, index) =>
      text.includes(petLine(index + 1, name).trimEnd()),
    );
    assert.deepEqual(result.names, whole, `cut at ${size}`);
    assert.deepEqual(
      result.known,
      whole.filter((name) => name !== '-'),
      `cut at ${size}`,
    );
    assert.ok(text.endsWith(String(Buffer.concat(tornTails(result.path)))));
    assert.equal((await checkFile(result.path)).verdict, 'sound');
  }
});

test('F2 a record whose animal is torn is set aside with it, and the key is new', async () => {
  for (const torn of [
    recordLine(onceOf('b')),
    `${recordLine(onceOf('b'))}{"id":2,"na`,
    recordLine(onceOf('b')).slice(0, 30),
  ]) {
    for (const before of ['', petLine(1, 'a'), String(keyedBatches(['a']))]) {
      const path = fileWith(before + torn);
      assert.equal((await checkFile(path)).tornBytes, torn.length);
      await using(path, async (storage) => {
        assert.equal(
          (await insertOnce(storage, { ...rex, name: 'b' }, onceOf('b', 'another'))).name,
          'b',
        );
        assert.equal(storage.size, before === '' ? 1 : 2);
      });
      assert.deepEqual(tornTails(path).map(String), [torn]);
      await using(path, async (storage) =>
        assert.equal((await insertOnce(storage, rex, onceOf('b', 'another'))).name, 'b'),
      );
    }
  }
});

test('F3 a flipped bit anywhere is refused, or a torn tail behind every animal and record of a sound commit', async () => {
  const lastCommit = sound.lastIndexOf('{"commit"');
  const bits = fc.sample(fc.integer({ min: 0, max: 8 * sound.length - 1 }), 150);
  for (const bit of bits) {
    const file = Buffer.from(sound);
    file.writeUInt8(file.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    const result = await outcome(file, keys);
    if (result === 'refused') continue;
    assert.ok(bit >> 3 >= lastCommit, `bit ${bit}`);
    assert.deepEqual([result.names, result.known], [soundNames, keys], `bit ${bit}`);
  }
});

test('F3 a line taken out, doubled or swapped with the next is refused, or no animal and no record is lost', async () => {
  const lines = String(sound).split(/(?<=\n)/);
  for (const index of lines.keys()) {
    const [line = '', next = ''] = lines.slice(index, index + 2);
    const without = [...lines.slice(0, index), ...lines.slice(index + 1)];
    const doubled = [...lines.slice(0, index), line, ...lines.slice(index)];
    const swapped = [...lines.slice(0, index), next, line, ...lines.slice(index + 2)];
    for (const changed of [without, doubled, ...(next === '' ? [] : [swapped])]) {
      const result = await outcome(Buffer.from(changed.join('')), keys);
      if (result !== 'refused')
        assert.deepEqual([result.names, result.known], [soundNames, keys], `line ${index + 1}`);
    }
  }
});

test('F3 under a sound commit a record counts only in exactly our text and directly before an animal', async () => {
  const record = recordLine(onceOf('a'));
  const cases: readonly (readonly [string, string, RegExp])[] = [
    [
      'no animal before the commit',
      petLine(1) + record,
      /line 3, byte \d+: no animal behind an idempotency record/,
    ],
    ['alone', record, /line 2, byte \d+: no animal/],
    ['an empty line between', `${record}\n${petLine(1)}`, /line 2, byte \d+: nothing behind/],
    ['a second record', record + record + petLine(1), /line 2, byte \d+: no animal/],
    [
      'a commit between',
      record + commitOf(Buffer.from(record), 0).toString() + petLine(1),
      /line 2, byte \d+: no animal/,
    ],
    ['white space', record.replace(':', ': ') + petLine(1), /line 1/],
    ['behind it a space', record.replace('\n', ' \n') + petLine(1), /line 1/],
    ['a carriage return', record.replace('\n', '\r\n') + petLine(1), /line 1/],
    [
      'large digits of the key alone',
      record.replace(/(?<="key":")\w+/, (digits) => digits.toUpperCase()) + petLine(1),
      /line 1/,
    ],
    [
      'large digits of the body alone',
      record.replace(/(?<="body":")\w+/, (digits) => digits.toUpperCase()) + petLine(1),
      /line 1/,
    ],
    ['63 digits', record.replace(/"key":"./, '"key":"') + petLine(1), /line 1/],
    ['65 digits', record.replace('"key":"', '"key":"0') + petLine(1), /line 1/],
    [
      'another order',
      record.replace(/("key":"\w+"),("body":"\w+")/, '$2,$1') + petLine(1),
      /line 1/,
    ],
    ['a member more', record.replace(`${at}`, `${at},"x":1`) + petLine(1), /line 1/],
    ['a leading zero', record.replace(`${at}`, `0${at}`) + petLine(1), /line 1/],
    ['a negative time', record.replace(`${at}`, `-${at}`) + petLine(1), /line 1/],
    ['a fraction', record.replace(`${at}`, '1.5') + petLine(1), /line 1/],
    ['16 digits', record.replace(`${at}`, '9'.repeat(16)) + petLine(1), /line 1/],
  ];
  for (const [what, text, message] of cases) {
    const body = Buffer.from(text);
    const path = fileWith(Buffer.concat([body, commitOf(body, 0)]));
    await assert.rejects(fileStorage(path), { ...damaged, message }, what);
    assert.equal(readFileSync(path).subarray(0, body.length).toString(), text, what);
  }
});

test('F2 a block that the disk never wrote, in a record or its animal, is a torn tail that leaves neither', async () => {
  const names = Array.from({ length: 80 }, (_, index) => `k${index}`);
  const file = keyedBatches(['a'], names);
  const blockBytes = 4096;
  for (let from = blockBytes; from + blockBytes < file.length; from += blockBytes) {
    const result = await outcome(Buffer.from(file).fill(0, from, from + blockBytes), [
      'a',
      ...names,
    ]);
    assert.ok(result !== 'refused', `block at ${from}`);
    assert.ok(result.names.length < 81 && result.names.length > 1);
    assert.deepEqual(result.known, result.names);
  }
});

test('check counts keys, and salvage keeps the records of sound animals alone', async () => {
  const file = String(keyedBatches(['a', '-'], ['b', 'c'], ['-', 'd']));
  assert.deepEqual(
    await checkFile(fileWith(file)).then(({ verdict, animals, idempotencyKeys }) => [
      verdict,
      animals,
      idempotencyKeys,
    ]),
    ['sound', 6, 4],
  );
  const saved = async (text: string): Promise<readonly [string, readonly number[]]> => {
    const out = `${fileWith('')}.saved`;
    const { leftOut } = await salvageFile(fileWith(text), out);
    assert.equal((await checkFile(out)).verdict, 'sound');
    return [readFileSync(out, 'utf8'), leftOut.map(({ line }) => line)];
  };
  assert.deepEqual(await saved(file), [file, []], 'a sound file is saved as it is');
  const damagedBatch = await outcome(
    Buffer.from((await saved(file.replace('"name":"c"', '"name":"x"')))[0]),
    keys,
  );
  assert.ok(damagedBatch !== 'refused');
  assert.deepEqual(
    [damagedBatch.names, damagedBatch.known],
    [
      ['a', '-', '-', 'd'],
      ['a', 'd'],
    ],
  );
  const alone = recordLine(onceOf('z'));
  for (const [text, lines] of [
    [file + alone, [14]],
    [file + alone + alone + petLine(7, 'z').slice(0, 9), [14, 15, 16]],
    [`${file}${alone}\n`, [14]],
    [`${file}${alone.slice(0, 50)}`, [14]],
    [file + alone + commitOf(Buffer.from(alone), file.length).toString(), [14]],
  ] as const) {
    assert.deepEqual(await saved(text), [file, lines]);
  }
  const head = Buffer.concat([
    keyedBatches(['a']),
    Buffer.from(alone),
    commitOf(Buffer.from(alone), keyedBatches(['a']).length),
  ]);
  const next = Buffer.from(petLine(2, '-'));
  const [orphaned] = await saved(String(Buffer.concat([head, next, commitOf(next, head.length)])));
  assert.equal(orphaned, String(keyedBatches(['a'], ['-'])), 'no later animal gets the record');
  const [uncommitted] = await saved(`${file}${alone}${petLine(7, 'z')}`);
  assert.equal((await checkFile(fileWith(uncommitted))).idempotencyKeys, 5);
});

const errnos: readonly (readonly [string, Partial<Disk>])[] = [
  ['a full disk', { write: () => Promise.reject(systemError('ENOSPC')) }],
  ['a failed write', { write: () => Promise.reject(systemError('EIO')) }],
  ['a failed fdatasync', { datasync: () => Promise.reject(systemError('EIO')) }],
];
for (const [what, fault] of errnos) {
  test(`behind ${what} the key is new, and keys from before have their animals all the while`, async () => {
    const path = newPath();
    const disk = diskWith({});
    await using(
      path,
      async (storage) => {
        await insertOnce(storage, rex, onceOf('before'));
        Object.assign(disk, fault);
        for (let attempt = 0; attempt < 3; attempt++)
          await assert.rejects(insertOnce(storage, rex, onceOf('a')), unavailable, 'not in flight');
        assert.equal((await insertOnce(storage, rex, onceOf('before'))).id, 1n);
        Object.assign(disk, nodeDisk);
        if (what === 'a full disk')
          assert.equal((await insertOnce(storage, rex, onceOf('a'))).id, 2n);
      },
      { disk },
    );
    await using(path, async (storage) => {
      assert.equal((await insertOnce(storage, rex, onceOf('a'))).id, 2n);
      assert.equal(storage.size, 2);
    });
  });
}

test('F10 of an add refused with its write begun the key knows more than its client: a retry behind the restart finds it', async () => {
  const path = newPath();
  const disk = diskWith({});
  await using(
    path,
    async (storage) => {
      disk.datasync = () => Promise.reject(systemError('EIO'));
      disk.truncate = () => Promise.reject(systemError('EIO'));
      await assert.rejects(insertOnce(storage, rex, onceOf('a')), unavailable);
    },
    { disk },
  );
  await using(path, async (storage) => {
    assert.equal(storage.size, 1);
    assert.equal((await insertOnce(storage, rex, onceOf('a'))).id, 1n);
    assert.equal(storage.size, 1);
  });
});

/**
 * A storage whose disk hangs in the commit of key `a`, while key `b` waits; both have been answered
 * 503.
 */
async function hung(t: TestContext): Promise<{
  readonly path: string;
  readonly storage: PetStorage;
  readonly disk: Disk;
  readonly end: (error?: Error) => Promise<void>;
}> {
  const path = newPath();
  const disk = diskWith({});
  const storage = await fileStorage(path, { disk });
  atEnd(t, () => storage.close());
  const syncing = gate();
  const thawed = gate();
  let failure: Error | undefined;
  disk.datasync = async (descriptor) => {
    syncing.open();
    await thawed.opened;
    if (failure !== undefined) throw failure;
    await nodeDisk.datasync(descriptor);
  };
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const refused = [assert.rejects(insertOnce(storage, rex, onceOf('a')), unavailable)];
  await syncing.opened;
  refused.push(assert.rejects(insertOnce(storage, rex, onceOf('b')), unavailable));
  t.mock.timers.tick(8000);
  await Promise.all(refused);
  t.mock.timers.reset();
  const end = async (error?: Error): Promise<void> => {
    failure = error;
    thawed.open();
    // The commit ends some turns later, and then a new key is taken or the storage is broken.
    while (
      (await insertOnce(storage, rex, onceOf('probe')).catch((error) => error.message)) ===
      'The disk does not answer.'
    )
      await new Promise(setImmediate);
  };
  return { path, storage, disk, end };
}

test('a commit that hangs keeps its key under way though it was answered for, and what only waited leaves its key new', async (t) => {
  const { storage, end } = await hung(t);
  for (const body of ['body', 'other'])
    await assert.rejects(insertOnce(storage, rex, onceOf('a', body)), inFlight);
  await assert.rejects(insertOnce(storage, rex, onceOf('b')), unavailable);
  await end();
  assert.equal((await insertOnce(storage, rex, onceOf('a'))).id, 1n, 'the commit ended well');
  assert.equal((await insertOnce(storage, rex, onceOf('b', 'other'))).id, 3n, 'behind the probe');
  assert.equal(storage.size, 3);
});

test('a commit that hangs and then fails leaves its key new', async (t) => {
  const { path, storage, end } = await hung(t);
  await assert.rejects(insertOnce(storage, rex, onceOf('a')), inFlight);
  await end(systemError('EIO'));
  await assert.rejects(insertOnce(storage, rex, onceOf('a')), unavailable);
  await storage.close();
  await using(path, async (again) =>
    assert.equal((await insertOnce(again, rex, onceOf('a'))).id, 1n),
  );
});

test('a storage that has no insertOnce says so, with and without texts', async () => {
  const storage = await fileStorage(newPath());
  const bare = (texts: boolean): PetStorage => {
    const { insert, get, list } = storage;
    const { insertOnce: _none, ...others } = textsOf(storage);
    return {
      durable: false,
      insert,
      get,
      list,
      close: () => storage.close(),
      ...(texts && { texts: others }),
    };
  };
  const refused = { code: 'invalid_parameter', message: /keeps no idempotency keys/ };
  for (const one of [bare(false), bare(true)]) {
    await assert.rejects(insertTextOnce(one, rex, onceOf('a')), refused);
    assert.equal((await textsOf(one).insert(rex)).json.includes('Rex'), true);
    assert.notEqual(await textsOf(one).get(1n), undefined);
    assert.notDeepEqual(await textsOf(one).list({ limit: 1 }), { texts: [] });
  }
  // One without texts of its own but with keys has both in texts.
  const { insert, insertOnce: once, get, list } = storage;
  const { id, json } = await textsOf({
    durable: false,
    insert,
    ...(once && { insertOnce: once }),
    get,
    list,
    close: () => storage.close(),
  }).insertOnce(rex, onceOf('a'));
  assert.equal((await textsOf(storage).insertOnce(rex, onceOf('a'))).json, json);
  assert.equal(json, `{"id":${id},"name":"Rex","categoryId":5}`);
  await storage.close();
});
