import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { asByteString } from '../../dist/json.js';
import { petJson, parsePet } from '../../dist/engine/index.js';
import { fileStorage, petLines } from '../../dist/file/index.js';
import { nodeDisk, openJournal, type Disk } from '../../dist/journal/index.js';
import { commitOf } from './commit-line.js';
import { batches, draft, fileInMemory, fileWith, petLine, tornTails, using } from './scene.js';
import { unlocked } from '../support/disk.js';
import { anyText } from '../support/text.js';
import { petStatuses, PetstoreError } from '../../dist/index.js';

const sound = batches(1, 3, 2, 4);
const lastBatchFrom = batches(1, 3, 2).length;
const allLines = Array.from({ length: 10 }, (_, index) => petLine(index + 1).trimEnd());

/**
 * What opening makes of a file: the texts that a storage would serve, or 'refused', which must
 * leave it untouched.
 */
async function outcome(
  file: Uint8Array,
): Promise<{ readonly texts: readonly string[]; readonly path: string } | 'refused'> {
  const path = fileInMemory(file);
  const texts: string[] = [];
  try {
    const journal = await openJournal(
      path,
      { disk: unlocked },
      petLines((_id, _status, json) => texts.push(json)),
    );
    await journal.close();
    return { texts, path };
  } catch (error) {
    assert.ok(error instanceof PetstoreError && error.code === 'storage_damaged', String(error));
    assert.deepEqual(readFileSync(path), Buffer.from(file));
    return 'refused';
  }
}

test('F2 a file cut at any byte serves every line that is whole, and the rest is set aside', async () => {
  for (let size = 0; size <= sound.length; size++) {
    const file = sound.subarray(0, size);
    const result = await outcome(file);
    assert.ok(result !== 'refused', `cut at ${size}`);
    const text = String(file);
    assert.deepEqual(
      result.texts,
      allLines.filter((line) => text.includes(line)),
      `cut at ${size}`,
    );
    const torn = String(Buffer.concat(tornTails(result.path)));
    assert.ok(text.endsWith(torn));
  }
});

test('F3 a flipped bit is served never: refused, or a torn tail behind every animal of a sound commit', async () => {
  const bit = fc.integer({ min: 0, max: sound.length * 8 - 1 });
  for (const at of fc.sample(bit, 400)) {
    const file = Buffer.from(sound);
    file.writeUInt8(file.readUInt8(at >> 3) ^ (1 << (at & 7)), at >> 3);
    const result = await outcome(file);
    if (result === 'refused') continue;
    // Only where the last commit line itself is hit is the file served.
    assert.ok(
      at >> 3 >= sound.length - commitOf(Buffer.alloc(0), lastBatchFrom).length,
      `bit ${at}`,
    );
    assert.deepEqual(result.texts, allLines, `bit ${at}`);
  }
});

test('F2, F3 zeroed sectors and blocks: refused, or a torn tail behind every animal of the batches before', async () => {
  const file = batches(3, 150, 2, 80);
  const lastFrom = batches(3, 150, 2).length;
  for (const size of [512, 4096]) {
    for (let from = 0; from < file.length; from += size) {
      const result = await outcome(
        Buffer.from(file).fill(0, from, Math.min(from + size, file.length)),
      );
      if (result === 'refused') continue;
      assert.ok(from + size > lastFrom, `${size} bytes at ${from}`);
      assert.ok(result.texts.length >= 155);
      for (const [index, text] of result.texts.entries())
        assert.equal(text, petLine(index + 1).trimEnd());
    }
  }
});

test('F3 a line taken out, doubled or swapped with the next is refused, or no animal of a commit is lost', async () => {
  const lines = String(sound).split(/(?<=\n)/);
  for (const index of lines.keys()) {
    const [line = '', next = ''] = lines.slice(index, index + 2);
    const without = [...lines.slice(0, index), ...lines.slice(index + 1)];
    const doubled = [...lines.slice(0, index), line, ...lines.slice(index)];
    const swapped = [...lines.slice(0, index), next, line, ...lines.slice(index + 2)];
    for (const changed of [without, doubled, ...(next === '' ? [] : [swapped])]) {
      const result = await outcome(Buffer.from(changed.join('')));
      if (result !== 'refused') assert.deepEqual(result.texts, allLines);
    }
  }
});

test('a file longer than one piece, with a line longer than one, is replayed whole', async () => {
  const body = Buffer.from(petLine(1) + petLine(2, 'x'.repeat(3 * 2 ** 20)) + petLine(3));
  const more = Buffer.from(
    Array.from({ length: 30_000 }, (_, index) => petLine(index + 4)).join(''),
  );
  const head = Buffer.concat([body, commitOf(body, 0)]);
  const result = await outcome(Buffer.concat([head, more, commitOf(more, head.length)]));
  assert.ok(result !== 'refused');
  assert.equal(result.texts.length, 30_003);
  assert.equal(result.texts[1]?.length, 3 * 2 ** 20 + petLine(2, '').trimEnd().length);
});

test('a disk that hands over any part of what is asked for makes no difference, not between a record and its animal either', async () => {
  const record = (id: number) =>
    `{"idempotency":{"key":"${'a'.repeat(63)}${id}","body":"${'b'.repeat(64)}","at":7}}\n`;
  const body = Buffer.from(record(1) + petLine(1) + petLine(2) + record(3) + petLine(3, 'Ünï'));
  const path = fileWith(
    Buffer.concat([body, commitOf(body, 0), Buffer.from(record(4) + petLine(4))]),
  );
  await (await fileStorage(path)).close();
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1 }),
      async (reads) => {
        let call = 0;
        const read: Disk['read'] = (from, into, position) =>
          nodeDisk.read(from, into.subarray(0, reads[call++ % reads.length]), position);
        await using(
          path,
          async (storage) => {
            assert.equal(storage.size, 4);
            for (const id of [1, 3, 4]) {
              const once = { key: `${'a'.repeat(63)}${id}`, body: 'b'.repeat(64), at: 8 };
              assert.equal((await storage.insertOnce?.(draft, once))?.id, BigInt(id));
            }
          },
          { disk: { ...unlocked, read } },
        );
      },
    ),
    { numRuns: 20 },
  );
});

/** What `petLines` makes of one line, or the message of its refusal. */
function viaLines(line: Buffer): unknown {
  let seen: unknown;
  try {
    petLines((id, status, json) => (seen = { id, status, json }))(
      asByteString(line.toString('latin1')),
    );
    return seen;
  } catch (error) {
    assert.ok(error instanceof PetstoreError);
    return error.message;
  }
}

/** The same by the reader of the contract alone. */
function viaParse(line: Buffer): unknown {
  try {
    const { id, ...draft } = parsePet(asByteString(line.toString('latin1')));
    return { id, status: draft.status, json: petJson(id, draft) };
  } catch (error) {
    assert.ok(error instanceof PetstoreError);
    return error.message;
  }
}

const anyDraft = fc.record({
  name: anyText(),
  categoryId: fc.oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.bigInt({ min: -20n, max: 20n }),
  ),
  status: fc.constantFrom(...petStatuses, undefined),
});
const canonical = fc.tuple(
  fc.oneof(fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }), fc.bigInt({ min: 1n, max: 99n })),
  anyDraft,
);

test('a canonical line is read as the reader of the contract reads it, and served byte for byte', () => {
  fc.assert(
    fc.property(canonical, ([id, { status, ...rest }]) => {
      const line = Buffer.from(petJson(id, { ...rest, ...(status && { status }) }), 'latin1');
      assert.deepEqual(viaLines(line), { id, status, json: line.toString('latin1') });
      assert.deepEqual(viaLines(line), viaParse(line));
    }),
  );
});

test('a number that JSON or our own text writes in another way is not taken as it stands', () => {
  const parts = [
    '0',
    '-0',
    '00',
    '01',
    '-01',
    '-',
    '',
    '7',
    '-7',
    '+7',
    '1e2',
    '1.0',
    '9'.repeat(15),
    '9'.repeat(19),
    '9'.repeat(20),
  ];
  for (const id of parts) {
    for (const categoryId of parts) {
      const line = Buffer.from(`{"id":${id},"name":"","categoryId":${categoryId}}`);
      assert.deepEqual(viaLines(line), viaParse(line), String(line));
    }
  }
});

test('a line changed in any way is read, or refused, as the reader of the contract does', () => {
  const edit = fc.tuple(
    fc.nat(),
    fc.nat({ max: 3 }),
    fc.oneof(fc.nat({ max: 255 }), fc.constantFrom(...Buffer.from('"\\,{}:0123456789-.e \t'))),
  );
  fc.assert(
    fc.property(
      canonical,
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      ([id, { status, ...rest }], edits) => {
        let line = Buffer.from(petJson(id, { ...rest, ...(status && { status }) }), 'latin1');
        for (const [where, removed, byte] of edits) {
          const at = where % (line.length + 1);
          line = Buffer.concat([
            line.subarray(0, at),
            Buffer.from([byte]),
            line.subarray(at + removed),
          ]);
        }
        assert.deepEqual(viaLines(line), viaParse(line));
      },
    ),
    { numRuns: 5000 },
  );
});

test('F3 a file of something else is refused and left alone, though nothing in it was ever committed', async () => {
  const animals = readFileSync(new URL('../../data/animals.jsonl', import.meta.url));
  for (const foreign of [
    '# A shopping list',
    'milk\neggs\n',
    'SQLite format 3\0\0\0',
    '{"name":"Rex","categoryId":1}\n',
    animals,
  ]) {
    assert.equal(await outcome(Buffer.from(foreign)), 'refused', String(foreign).slice(0, 20));
  }
});

test('F3 one line of something else is no torn write of ours either, whatever it begins with and ends in', async () => {
  const line = petLine(1).trimEnd();
  const objects = [
    '{}',
    '{"name":"my-app","version":"1.0.0"}',
    '\n\n{"name":"my-app"}',
    '{"id":"my-app","version":',
    '{"commits":',
    '{ "id": 1, "name": "R',
  ];
  const utf16 = Buffer.from(line, 'utf16le').toString('latin1');
  for (const foreign of [
    ...objects,
    utf16,
    `${line}{"Id":2}`,
    `${line},`,
    `${line}\r${petLine(2).trimEnd()}\r`,
    '\0\0\0RIFF',
    `${'\0'.repeat(4095)}x`,
  ]) {
    assert.equal(await outcome(Buffer.from(foreign)), 'refused', foreign.slice(0, 40));
  }
});

test('F3 a file whose newlines somebody took out or replaced is refused: all that was acknowledged stands in its one line', async () => {
  const record = `{"idempotency":{"key":"${'a'.repeat(64)}","body":"${'b'.repeat(64)}","at":7}}\n`;
  const byHand = petLine(1, 'a \\"}{\\" b') + petLine(2);
  for (const file of [String(sound), record + String(sound), byHand]) {
    for (const end of ['', ' ', '\r', '\t', ',', ', ', ';', 'x']) {
      const joined = file.replaceAll('\n', end);
      for (const given of [joined, joined.slice(0, -20), `${joined}\n`])
        assert.equal(await outcome(Buffer.from(given)), 'refused', given.slice(0, 200));
    }
  }
});

test('F2 what a first write of ours can leave is set aside: cut at any byte, or its first block still missing', async () => {
  const record = `{"idempotency":{"key":"${'a'.repeat(64)}","body":"${'b'.repeat(64)}","at":7}}\n`;
  const first = petLine(1, 'a \\"}\\" b');
  const wholes = [record + first, batches(0).toString()].map((whole) => whole.trimEnd());
  const cuts = wholes.flatMap((whole) =>
    Array.from({ length: whole.length - 1 }, (_, index) => whole.slice(0, index + 1)),
  );
  const gaps = [
    '\0'.repeat(50),
    '\0'.repeat(4096),
    `${'\0'.repeat(4096)}x`,
    `${first.trimEnd()}${'\0'.repeat(4096)}`,
  ];
  for (const torn of [...cuts, ...gaps]) {
    const result = await outcome(Buffer.from(torn));
    assert.ok(result !== 'refused' && result.texts.length === 0, torn);
    assert.deepEqual(tornTails(result.path).map(String), [torn]);
  }
});
