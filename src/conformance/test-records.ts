/** A suite on node:test that tests `records`, for whoever writes a storage that keeps them. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import {
  int64OfJsonNumber,
  JsonNumber,
  parseJson,
  PetstoreError,
  toByteString,
  type PageQuery,
  type PetStorage,
  type RecordKind,
} from '../index.js';
import { testMember, type StorageRules } from './optional.js';

/** Notes: the simplest kind, a text each. */
const notes: RecordKind<string> = {
  json: (id, text) => toByteString(`{"id":${id},"text":${JSON.stringify(text)}}`),
  parse: (json) => {
    const value = parseJson(json);
    const [id, text] = value instanceof Map ? [value.get('id'), value.get('text')] : [];
    const number = id instanceof JsonNumber ? int64OfJsonNumber(id.text) : undefined;
    if (number === undefined || typeof text !== 'string')
      throw new PetstoreError('invalid_body', 'This is no note.');
    return { id: number, draft: text };
  },
};

/** What a program without types may give in place of a query. */
const impossibleQueries: readonly unknown[] = [
  ...[undefined, null, {}],
  ...[0, -1, 1.5, NaN, Infinity, '5', 5n].map((limit) => ({ limit })),
  ...[1, '1', null].map((after) => ({ limit: 5, after })),
];

const unavailable = { name: 'PetstoreError', code: 'unavailable' };

const rules: StorageRules<'records'> = {
  'ids are 1, 2, 3 … in the order of the calls, before it is open and with many at once': async (
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
    assert.equal(await kept.get(301n), undefined);
  },

  'a page is by ascending id, at most its limit, behind `after`, and says where the next begins':
    async (storage) => {
      const kept = storage.records('notes', notes);
      for (const text of ['a', 'b', 'c']) await kept.insert(text);
      const [a, b, c] = ['a', 'b', 'c'].map((text, index) => notes.json(BigInt(index + 1), text));
      assert.deepEqual(await kept.list({ limit: 2 }), { texts: [a, b], next: 2n });
      assert.deepEqual(await kept.list({ limit: 2, after: 2n }), { texts: [c] });
      assert.deepEqual(await kept.list({ limit: 3 }), { texts: [a, b, c] });
      assert.deepEqual(await kept.list({ limit: 9, after: 3n }), { texts: [] });
    },

  'a query that no page can answer is a TypeError': async (storage) => {
    const kept = storage.records('notes', notes);
    await kept.insert('a');
    // A caller without types is what the check is for.
    for (const query of impossibleQueries)
      await assert.rejects(kept.list(query as PageQuery), TypeError, inspect(query));
    assert.equal((await kept.list({ limit: 9 })).texts.length, 1);
  },

  'each name has its own, apart from each other and from the animals': async (storage) => {
    const [one, other] = [storage.records('notes', notes), storage.records('others', notes)];
    await storage.insert({ name: 'Rex', categoryId: 1n });
    await one.insert('a');
    assert.equal((await other.insert('b')).id, 1n);
    assert.equal(await one.get(1n), notes.json(1n, 'a'));
    assert.equal((await storage.list({ limit: 9 })).length, 1);
    await assert.rejects(storage.records('notes', notes).opened, { code: 'storage_in_use' });
    await one.insert('still mine');
  },

  'a name that could be another file’s is refused, and uses of it are unavailable': async (
    storage,
  ) => {
    for (const bad of ['', 'lock', 'Notes', 'a.b', 'a/b', '..', 'torn-1', 'x'.repeat(41)]) {
      const kept = storage.records(bad, notes);
      await assert.rejects(kept.opened, TypeError, bad);
      await assert.rejects(kept.insert('a'), unavailable);
      await assert.rejects(kept.list({ limit: 1 }), unavailable);
    }
  },

  'a text that is no line of this record is a TypeError and is not kept': async (storage) => {
    // As JavaScript may write it, without making bytes of a text.
    const kind: RecordKind<string> = Object({
      ...notes,
      json: (id: bigint, text: string) =>
        text === 'fine' ? `{"id":${id},"ok":true}` : text.replace('ID', `${id}`),
    });
    const odd = storage.records('odd', kind);
    for (const text of [
      '',
      '{"id":ID,"a":\n1}',
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

  'a record may have more values than a body': async (storage) => {
    const many: RecordKind<string> = {
      json: (id, rest) => toByteString(`{"id":${id},${rest}`),
      parse: (json) => (parseJson(json), { id: 1n, draft: json.slice('{"id":1,'.length) }),
    };
    const kept = storage.records('many', many);
    const { json } = await kept.insert(`"all":[${'0,'.repeat(70_000)}0]}`);
    assert.equal(many.json(1n, many.parse(json).draft), json);
  },

  'a draft that its owner changes while it waits is kept as it was given': async (storage) => {
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

  'what is refused is refused alone, among others that come at the same moment': async (
    storage,
  ) => {
    // Texts of ASCII are byte strings as they are. To make one of 128 MiB takes seconds, and what
    // waits waits for two.
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

  'they close with the storage; nothing is opened behind that': async (storage) => {
    const kept = storage.records('notes', notes);
    const adding = Promise.all(['a', 'b'].map((text) => kept.insert(text)));
    await adding;
    await storage.ready?.();
    await storage.close();
    await assert.rejects(kept.insert('c'), unavailable);
    await assert.rejects(kept.get(1n), unavailable);
    await assert.rejects(kept.list({ limit: 1 }), unavailable);
    await assert.rejects(storage.records('others', notes).opened, unavailable);
    await storage.close();
  },
};

/**
 * Registers one test with node:test, and each rule within it. What needs a restart is not tested.
 *
 * @param options `open` answers another storage for each rule, open and without records; the suite
 * closes it.
 */
export function testRecords({
  open,
}: {
  readonly open: () => PetStorage | Promise<PetStorage>;
}): void {
  testMember('the contract of records', 'records', open, rules);
}
