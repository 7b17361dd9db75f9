/**
 * Idempotency keys in a file: the record before its animal, through restarts, faults of the disk,
 * torn tails and damage.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { checkFile, fileStorage, salvageFile } from '../../dist/file/index.js';
import { nodeDisk, type Disk } from '../../dist/journal/index.js';
import { textsOf } from '../../dist/engine/index.js';
import { dayMs, inFlight, insertOnce, insertTextOnce, mismatch, onceOf } from './once.js';
import {
  committed,
  damaged,
  fileWith,
  keyedLines,
  newPath,
  petLine,
  recordLine,
  tornTails,
  unavailable,
  using,
} from './scene.js';
import { diskWith, systemError } from '../support/disk.js';
import { gate } from '../support/waiting.js';
import type { PetStorage } from '../../dist/index.js';

const rex = { name: 'Rex', categoryId: 5n } as const;
const at = 1_795_132_800_000;

/** Batches by hand: each animal with a record where its name is that of a key, `-` being none. */
const keyedFile = (...names: readonly (readonly string[])[]): string =>
  String(committed(keyedLines(...names).map((batch) => batch.join(''))));

const idOf = async (storage: PetStorage, ...use: Parameters<typeof onceOf>) =>
  (await insertOnce(storage, rex, onceOf(...use))).id;

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
  const [first, second] = [recordLine(onceOf('a')), recordLine(onceOf('b', 'other', 0))];
  const lines = animal(1) + first + animal(2) + second + animal(3);
  assert.deepEqual(readFileSync(path), committed([lines]));
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
        assert.equal(await idOf(storage, 'a', 'body', at + dayMs - 1), 1n);
        await assert.rejects(idOf(storage, 'a', 'other', at + dayMs - 1), mismatch);
        assert.equal(await idOf(storage, 'b', 'body', at + dayMs), 2n);
      },
      { clock },
    );
  }
  assert.deepEqual(readFileSync(path), before);
  // Of two records of a key the later counts.
  for (let start = 0; start < 2; start++)
    await using(path, async (storage) => {
      assert.equal(await idOf(storage, 'a', 'body', at + dayMs), 3n);
      assert.equal(await idOf(storage, 'b', 'body', at + dayMs), 2n);
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
    await using(fileWith(committed([head + petLine(2, filler) + tail])), async (storage) => {
      assert.equal(storage.size, 3);
      assert.equal(await idOf(storage, 'last'), 3n);
    });
  }
  const long = recordLine(onceOf('long')) + petLine(1, 'x'.repeat(3 * piece));
  await using(fileWith(committed([long])), async (storage) => {
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

test('F2 a record whose animal is torn is set aside with it, and the key is new', async () => {
  const record = recordLine(onceOf('b'));
  for (const torn of [record, `${record}{"id":2,"na`, record.slice(0, 30)]) {
    for (const before of ['', petLine(1, 'a'), keyedFile(['a'])]) {
      const path = fileWith(before + torn);
      const id = before === '' ? 1n : 2n;
      assert.equal((await checkFile(path)).tornBytes, torn.length);
      await using(path, async (storage) => {
        assert.equal(await idOf(storage, 'b', 'another'), id);
        assert.equal(storage.size, Number(id));
      });
      assert.deepEqual(tornTails(path).map(String), [torn]);
      await using(path, async (storage) => assert.equal(await idOf(storage, 'b', 'another'), id));
    }
  }
});

test('F3 under a sound commit a record counts only in exactly our text and directly before an animal', async () => {
  const record = recordLine(onceOf('a'));
  const emptyCommit = String(committed([record])).slice(record.length);
  const first = petLine(1);
  const upper = (digits: string): string => digits.toUpperCase();
  const alone = /line 2, byte \d+: no animal/;
  const cases: Readonly<Record<string, readonly [text: string, message: RegExp]>> = {
    'no animal before the commit': [
      first + record,
      /line 3, byte \d+: no animal behind an idempotency record/,
    ],
    alone: [record, alone],
    'an empty line between': [`${record}\n${first}`, /line 2, byte \d+: nothing behind/],
    'a second record': [record + record + first, alone],
    'a commit between': [record + emptyCommit + first, alone],
  };
  const others: Readonly<Record<string, string>> = {
    'white space': record.replace(':', ': '),
    'behind it a space': record.replace('\n', ' \n'),
    'a carriage return': record.replace('\n', '\r\n'),
    'large digits of the key alone': record.replace(/(?<="key":")\w+/, upper),
    'large digits of the body alone': record.replace(/(?<="body":")\w+/, upper),
    '63 digits': record.replace(/"key":"./, '"key":"'),
    '65 digits': record.replace('"key":"', '"key":"0'),
    'another order': record.replace(/("key":"\w+"),("body":"\w+")/, '$2,$1'),
    ...Object.fromEntries(
      [`${at},"x":1`, `0${at}`, `-${at}`, '1.5', '9'.repeat(16)].map((other) => [
        other,
        record.replace(`${at}`, other),
      ]),
    ),
  };
  const all = Object.entries(others).map(
    ([what, other]) => [what, [other + first, /line 1/]] as const,
  );
  for (const [what, [text, message]] of [...Object.entries(cases), ...all]) {
    const file = committed([text]);
    const path = fileWith(file);
    await assert.rejects(fileStorage(path), { ...damaged, message }, what);
    assert.deepEqual(readFileSync(path), file, what);
  }
});

test('check counts keys, and salvage keeps the records of sound animals alone', async () => {
  const file = keyedFile(['a', '-'], ['b', 'c'], ['-', 'd']);
  const { verdict, animals, idempotencyKeys } = await checkFile(fileWith(file));
  assert.deepEqual([verdict, animals, idempotencyKeys], ['sound', 6, 4]);
  const saved = async (text: string): Promise<readonly [string, readonly number[]]> => {
    const out = `${fileWith('')}.saved`;
    const { leftOut } = await salvageFile(fileWith(text), out);
    assert.equal((await checkFile(out)).verdict, 'sound');
    return [readFileSync(out, 'utf8'), leftOut.map(({ line }) => line)];
  };
  assert.deepEqual(await saved(file), [file, []], 'a sound file is saved as it is');
  const [first = [], , third = []] = keyedLines(['a', '-'], ['b', 'c'], ['-', 'd']);
  const [rest] = await saved(file.replace('"name":"c"', '"name":"x"'));
  assert.equal(rest, String(committed([first.join(''), third.join('')])));
  const alone = recordLine(onceOf('z'));
  for (const [text, lines] of [
    [file + alone, [14]],
    [file + alone + alone + petLine(7, 'z').slice(0, 9), [14, 15, 16]],
    [`${file}${alone}\n`, [14]],
    [`${file}${alone.slice(0, 50)}`, [14]],
    [String(committed([alone], Buffer.from(file))), [14]],
  ] as const)
    assert.deepEqual(await saved(text), [file, lines]);
  const [orphaned] = await saved(
    String(committed([recordLine(onceOf('a')) + petLine(1, 'a'), alone, petLine(2, '-')])),
  );
  assert.equal(orphaned, keyedFile(['a'], ['-']), 'no later animal gets the record');
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
        await idOf(storage, 'before');
        Object.assign(disk, fault);
        for (let attempt = 0; attempt < 3; attempt++)
          await assert.rejects(idOf(storage, 'a'), unavailable, 'not in flight');
        assert.equal(await idOf(storage, 'before'), 1n);
        Object.assign(disk, nodeDisk);
        if (what === 'a full disk') assert.equal(await idOf(storage, 'a'), 2n);
      },
      { disk },
    );
    await using(path, async (storage) => {
      assert.equal(await idOf(storage, 'a'), 2n);
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
      await assert.rejects(idOf(storage, 'a'), unavailable);
    },
    { disk },
  );
  await using(path, async (storage) => {
    assert.equal(storage.size, 1);
    assert.equal(await idOf(storage, 'a'), 1n);
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
  const refused = [assert.rejects(idOf(storage, 'a'), unavailable)];
  await syncing.opened;
  refused.push(assert.rejects(idOf(storage, 'b'), unavailable));
  t.mock.timers.tick(8000);
  await Promise.all(refused);
  t.mock.timers.reset();
  const end = async (error?: Error): Promise<void> => {
    failure = error;
    thawed.open();
    // The commit ends some turns later, and then a new key is taken or the storage is broken.
    while (
      (await idOf(storage, 'probe').catch((error) => error.message)) === 'The disk does not answer.'
    )
      await new Promise(setImmediate);
  };
  return { path, storage, disk, end };
}

test('a commit that hangs keeps its key under way though it was answered for, and what only waited leaves its key new', async (t) => {
  const { storage, end } = await hung(t);
  for (const body of ['body', 'other']) await assert.rejects(idOf(storage, 'a', body), inFlight);
  await assert.rejects(idOf(storage, 'b'), unavailable);
  await end();
  assert.equal(await idOf(storage, 'a'), 1n, 'the commit ended well');
  assert.equal(await idOf(storage, 'b', 'other'), 3n, 'behind the probe');
  assert.equal(storage.size, 3);
});

test('a commit that hangs and then fails leaves its key new', async (t) => {
  const { path, storage, end } = await hung(t);
  await assert.rejects(idOf(storage, 'a'), inFlight);
  await end(systemError('EIO'));
  await assert.rejects(idOf(storage, 'a'), unavailable);
  await storage.close();
  await using(path, async (again) => assert.equal(await idOf(again, 'a'), 1n));
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
