// Records of a plugin's own, in files beside the animals.
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileStorage } from '../../dist/file/index.js';
import { commitOf } from './commit-line.js';
import { notes } from './records.js';
import { damaged, draft, newPath, tornTails, unavailable, using } from './scene.js';

test('records beside the animals have a file of the same form, and outlast a restart; ids go on', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    const kept = storage.records?.('notes', notes);
    await Promise.all([kept?.insert('a'), kept?.insert('b')]);
  });
  const body = '{"id":1,"text":"a"}\n{"id":2,"text":"b"}\n';
  assert.equal(
    readFileSync(`${path}.notes`, 'utf8'),
    body + commitOf(Buffer.from(body), 0).toString(),
  );
  assert.equal(statSync(`${path}.notes`).mode & 0o777, 0o600);
  // As a person may leave it: white space, another order, members that nobody asked for, no commit,
  // no newline.
  appendFileSync(`${path}.notes`, '{ "more": 1, "text": "\\u0063", "id": 5 }');
  await using(path, async (storage) => {
    const kept = storage.records?.('notes', notes);
    assert.deepEqual(await kept?.list({ limit: 9 }), {
      texts: ['{"id":1,"text":"a"}', '{"id":2,"text":"b"}', '{"id":5,"text":"c"}'],
    });
    assert.equal((await kept?.insert('d'))?.id, 6n);
  });
});

test('records: a torn tail is set aside, damage is refused with file, line and byte, and the animals stay', async () => {
  const path = newPath();
  const note = (text: string) =>
    using(path, async (storage) => (await storage.records?.('notes', notes).insert(text))?.id);
  assert.equal(await note('a'), 1n);
  assert.equal(await note('b'), 2n);
  appendFileSync(`${path}.notes`, '{"id":3,"te');
  assert.equal(await note('c'), 3n);
  assert.equal(tornTails(`${path}.notes`).length, 1);
  const sound = readFileSync(`${path}.notes`, 'utf8');
  writeFileSync(`${path}.notes`, sound.replace('"a"', '"x"'));
  await using(path, async (storage) => {
    await storage.insert(draft);
    const kept = storage.records?.('notes', notes);
    await assert.rejects(kept?.opened ?? Promise.resolve(), {
      ...damaged,
      message:
        /pets\.jsonl\.notes line 2, byte 20: .*checksum.*; nothing was changed: put a copy from before in its place$/,
    });
    await assert.rejects(kept?.insert('d') ?? Promise.resolve(), unavailable);
    await assert.rejects(storage.ready?.() ?? Promise.resolve(), unavailable);
    assert.equal((await storage.insert(draft)).id, 2n);
  });
  assert.equal(readFileSync(`${path}.notes`, 'utf8'), sound.replace('"a"', '"x"'));
});

test('records under a name that is refused, or taken, leave the storage ready', async () => {
  await using(newPath(), async (storage) => {
    for (const name of ['Bad Name', 'notes', 'notes'])
      await storage.records?.(name, notes).opened.catch(() => undefined);
    await storage.ready?.();
  });
});

test('records: what another program does to their file ends readiness and adding there, not adding animals', async () => {
  const path = newPath();
  const storage = await fileStorage(path);
  const kept = storage.records?.('notes', notes) ?? assert.fail();
  await kept.insert('a');
  await storage.ready?.();
  appendFileSync(`${path}.notes`, 'x');
  await assert.rejects(storage.ready?.() ?? Promise.resolve(), unavailable);
  await assert.rejects(kept.insert('b'), unavailable);
  assert.deepEqual(await kept.list({ limit: 9 }), { texts: ['{"id":1,"text":"a"}'] });
  assert.equal((await storage.insert(draft)).id, 1n);
  await storage.close();
});
