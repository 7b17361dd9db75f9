/** The suite for the optional member `records`. */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import {
  int64OfJsonNumber,
  JsonNumber,
  parseJson,
  PetstoreError,
  toByteString,
  type PageQuery,
  type RecordKind,
} from '../index.js';
import { testMember, type StorageChecks } from './optional-member.js';
import {
  int64Limits,
  invalidQueries,
  rex,
  storedPets,
  unavailable,
  type OpenStorage,
} from './storage-tester.js';

/** A record with one text. */
const notes: RecordKind<string> = {
  json: (id, text) => toByteString(`{"id":${id},"text":${JSON.stringify(text)}}`),
  parse: (json) => {
    const value = parseJson(json);
    const [id, text] = value instanceof Map ? [value.get('id'), value.get('text')] : [];
    const number = id instanceof JsonNumber ? int64OfJsonNumber(id.text) : undefined;
    if (number === undefined || typeof text !== 'string')
      throw new PetstoreError('invalid_body', 'This is not a note.');
    return { id: number, draft: text };
  },
};

const checks: StorageChecks<'records'> = {
  'records.insert assigns the ids 1, 2, 3 …, also to calls before the records are open': async (
    storage,
  ) => {
    const kept = storage.records('notes', notes);
    const texts = Array.from({ length: 300 }, (_, index) => `Tüm 猫 ${index}\n`);
    const stored = await Promise.all(texts.map((text) => kept.insert(text)));
    assert.deepEqual(
      stored.map(({ id, json }) => [id, json]),
      texts.map((text, index) => [BigInt(index + 1), notes.json(BigInt(index + 1), text)]),
    );
    await kept.opened;
    assert.equal(await kept.get(300n), notes.json(300n, texts[299] ?? ''));
    assert.deepEqual(await kept.list({ limit: 300 }), { texts: stored.map(({ json }) => json) });
  },

  'records.get returns undefined for an id that no record has': async (storage) => {
    const kept = storage.records('notes', notes);
    for (const text of ['a', 'b']) await kept.insert(text);
    for (const id of [...int64Limits, -2n, -1n, 0n, 3n, 2n ** 32n + 1n])
      assert.equal(await kept.get(id), undefined, `the id ${id}`);
  },

  'records.list returns records by ascending id, and the cursor of the next page': async (
    storage,
  ) => {
    const kept = storage.records('notes', notes);
    for (const text of ['a', 'b', 'c']) await kept.insert(text);
    const [a, b, c] = ['a', 'b', 'c'].map((text, index) => notes.json(BigInt(index + 1), text));
    assert.deepEqual(await kept.list({ limit: 2 }), { texts: [a, b], next: 2n });
    assert.deepEqual(await kept.list({ limit: 2, after: 2n }), { texts: [c] });
    assert.deepEqual(await kept.list({ limit: 3 }), { texts: [a, b, c] });
    assert.deepEqual(await kept.list({ limit: 9, after: 3n }), { texts: [] });
  },

  'records.list rejects an invalid query with a TypeError': async (storage) => {
    const kept = storage.records('notes', notes);
    await kept.insert('a');
    for (const query of invalidQueries)
      await assert.rejects(kept.list(query as PageQuery), TypeError, inspect(query));
    assert.equal((await kept.list({ limit: 9 })).texts.length, 1);
  },

  'records of one name are separate from other names and from pets': async (storage) => {
    const names = ['notes', 'note', 'pets', 'x'.repeat(40)];
    const all = names.map((name) => storage.records(name, notes));
    await storage.insert(rex);
    for (const [at, records] of all.entries())
      assert.equal((await records.insert(`text ${at}`)).id, 1n, names[at]);
    for (const [at, records] of all.entries()) {
      const json = notes.json(1n, `text ${at}`);
      assert.equal(await records.get(1n), json, names[at]);
      assert.deepEqual(await records.list({ limit: 9 }), { texts: [json] }, names[at]);
    }

    assert.equal((await storage.insert(rex)).id, 2n);
    assert.deepEqual(await storage.list({ limit: 9 }), storedPets([rex, rex]));
    assert.equal(storage.size ?? 2, 2);
  },

  'records rejects a name that is in use': async (storage) => {
    const first = storage.records('notes', notes);
    await first.insert('a');
    const second = storage.records('notes', notes);
    await assert.rejects(second.opened, { name: 'PetstoreError', code: 'storage_in_use' });
    await assert.rejects(second.insert('b'), unavailable);
    await assert.rejects(second.get(1n), unavailable);
    await assert.rejects(second.list({ limit: 1 }), unavailable);
    assert.equal((await first.insert('c')).id, 2n);
  },

  'records rejects a name that is not safe as a file extension': async (storage) => {
    for (const bad of ['', 'lock', 'Notes', 'a.b', 'a/b', '..', 'torn-1', 'x'.repeat(41)]) {
      const kept = storage.records(bad, notes);
      // A rejection that no plugin waits for must not end the process.
      await setImmediate();
      await assert.rejects(kept.opened, TypeError, bad);
      await assert.rejects(kept.insert('a'), unavailable);
      await assert.rejects(kept.get(1n), unavailable);
      await assert.rejects(kept.list({ limit: 1 }), unavailable);
    }
  },

  'records.insert rejects text that is not one line of JSON with the id, and stores nothing':
    async (storage) => {
      // A plugin in JavaScript may forget `toByteString`.
      const kind: RecordKind<string> = Object({
        ...notes,
        json: (id: bigint, text: string) =>
          text === 'fine' ? `{"id":${id},"ok":true}` : text.replace('ID', `${id}`),
      });
      const odd = storage.records('odd', kind);
      for (const text of [
        '',
        '{"id":ID}',
        ' {"id":ID,"a":1}',
        '{"a":1,"id":ID}',
        '{"id":ID,"a":\n1}',
        '{"id":ID,"a":\t1}',
        '{"id":ID,"a":"猫"}',
        '{"id":ID,"a":"Größe"}',
        '{"id":7,"a":1}',
        '{"commit":{"from":0,"crc32":"00000000"}}',
      ]) {
        await assert.rejects(odd.insert(text), TypeError, text);
      }
      assert.deepEqual(await odd.insert('fine').then(({ json }) => json), '{"id":1,"ok":true}');
      assert.deepEqual(await odd.list({ limit: 9 }), { texts: ['{"id":1,"ok":true}'] });
    },

  'records.insert accepts a record with more values than a request body may have': async (
    storage,
  ) => {
    const many: RecordKind<string> = {
      json: (id, rest) => toByteString(`{"id":${id},${rest}`),
      parse: (json) => (parseJson(json), { id: 1n, draft: json.slice('{"id":1,'.length) }),
    };
    const kept = storage.records('many', many);
    const { json } = await kept.insert(`"all":[${'0,'.repeat(70_000)}0]}`);
    assert.equal(many.json(1n, many.parse(json).draft), json);
  },

  'records.insert stores a draft as it was at the call': async (storage) => {
    const kept = storage.records<{ text: string }>('changed', {
      json: (id, { text }) => toByteString(JSON.stringify({ id: Number(id), text })),
      parse: () => assert.fail('parsed'),
    });
    await kept.opened;
    const draft = { text: 'Größe' };
    const inserting = [kept.insert(draft), kept.insert(draft)];
    draft.text = 'changed';
    const texts = await Promise.all(inserting).then((all) => all.map(({ json }) => json));
    const given = [1, 2].map((id) => toByteString(JSON.stringify({ id, text: 'Größe' })));
    assert.deepEqual(texts, given);
    assert.deepEqual((await kept.list({ limit: 9 })).texts, given);
  },

  'records.insert rejects only the invalid ones of concurrent records': async (storage) => {
    // ASCII text is a byte string already. Converting 128 MiB would take seconds.
    const plain: RecordKind<string> = Object({
      ...notes,
      json: (id: bigint, text: string) => `{"id":${id},"text":"${text}"}`,
    });
    const kept = storage.records('plain', plain);
    await kept.opened;
    const outcomes = await Promise.allSettled(
      ['a', 'b\n', 'c', 'x'.repeat(2 ** 27), 'd'].map((text) => kept.insert(text)),
    );
    assert.deepEqual(
      outcomes.map((outcome) =>
        outcome.status === 'fulfilled' ? outcome.value.json : outcome.reason.name,
      ),
      [
        '{"id":1,"text":"a"}',
        'TypeError',
        '{"id":2,"text":"c"}',
        'TypeError',
        '{"id":3,"text":"d"}',
      ],
    );
  },

  'close finishes inserts of records in flight and rejects later calls': async (storage) => {
    const kept = storage.records('notes', notes);
    await kept.insert('a');
    await storage.ready?.();

    const inserting = ['b', 'c'].map((text) => kept.insert(text));
    // Without this tick, the inserts might wait for the records to open.
    await setImmediate();
    const closing = storage.close();
    assert.deepEqual(
      (await Promise.all(inserting)).map(({ id }) => id),
      [2n, 3n],
    );
    await closing;
    await assert.rejects(kept.insert('d'), unavailable);
    await assert.rejects(kept.get(1n), unavailable);
    await assert.rejects(kept.list({ limit: 1 }), unavailable);
    await assert.rejects(storage.records('others', notes).opened, unavailable);
    await storage.close();
  },
};

/**
 * Registers a test of `records` with node:test, with subtests. Nothing is tested that needs a
 * restart.
 *
 * @param options `open` returns a new, open storage without records for each subtest; the suite
 * closes it.
 */
export function testRecords({ open }: { readonly open: OpenStorage }): void {
  testMember('the contract of records', 'records', open, checks);
}
