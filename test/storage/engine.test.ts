/** The parts that storages are made of: the catalogue, idempotency keys, the group commit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import '../support/built.js';
import {
  Catalogue,
  groupCommit,
  IdempotencyKeys,
  type GroupCommitOptions,
} from '../../dist/engine/index.js';
import { petStatuses, toByteString, type StoredText } from '../../dist/index.js';
import { gate } from '../support/waiting.js';
import { inFlight, mismatch, unavailable } from './animals.js';
import { dayMs, onceOf } from './once.js';

const status = fc.constantFrom(...petStatuses, undefined);
const gaps = fc.array(fc.tuple(fc.bigInt({ min: 1n, max: 5n }), status), { maxLength: 60 });

test('a catalogue with gaps between its ids answers as a plain search would', () => {
  const far = fc.bigInt({ min: 0n, max: 2n ** 62n });
  fc.assert(
    fc.property(
      far,
      gaps,
      fc.bigInt({ min: -3n, max: 200n }),
      fc.integer({ min: 1, max: 8 }),
      status,
      (start, steps, offset, limit, wanted) => {
        const catalogue = new Catalogue();
        const plain: {
          id: bigint;
          status: (typeof petStatuses)[number] | undefined;
          text: string;
        }[] = [];
        let id = start;
        for (const [gap, given] of steps) {
          id += gap;
          plain.push({ id, status: given, text: `text ${id}` });
          catalogue.add(id, given, toByteString(`text ${id}`));
        }
        const after = start + offset;
        assert.equal(catalogue.get(after), plain.find((pet) => pet.id === after)?.text);
        assert.equal(catalogue.lastId, plain.at(-1)?.id ?? 0n);
        const matching = plain.filter(
          (pet) => pet.id > after && (wanted === undefined || pet.status === wanted),
        );
        const page = catalogue.page({ limit, after, ...(wanted && { status: wanted }) });
        assert.deepEqual(
          page.texts,
          matching.slice(0, limit).map((pet) => pet.text),
        );
        assert.equal(page.next, matching.length > limit ? matching[limit - 1]?.id : undefined);
      },
    ),
  );
});

test('a catalogue grows past the room that it begins with', () => {
  const catalogue = new Catalogue();
  for (let id = 1n; id <= 5000n; id++) catalogue.add(id, 'sold', toByteString(String(id)));
  assert.deepEqual(catalogue.page({ limit: 2, status: 'sold', after: 4998n }), {
    texts: ['4999', '5000'],
  });
  assert.deepEqual(catalogue.page({ limit: 1, after: 4998n }), { texts: ['4999'], next: 4999n });
});

test('an id past the numbers that a double holds is told from its neighbours', () => {
  const catalogue = new Catalogue();
  for (let id = 2n ** 53n - 2n; id <= 2n ** 53n + 2n; id++)
    catalogue.add(id, undefined, toByteString(`text ${id}`));
  assert.equal(catalogue.lastId, 2n ** 53n + 2n);
  for (const id of [2n ** 53n, 2n ** 53n + 1n]) assert.equal(catalogue.get(id), `text ${id}`);
  catalogue.add(2n ** 63n - 1n, undefined, toByteString('the last'));
  assert.equal(catalogue.get(2n ** 63n - 1n), 'the last');
  assert.equal(catalogue.get(2n ** 63n), undefined);
});

test('C6 a page of long texts ends before its limit, behind 64 MiB, and says where the next begins; one text is always there', () => {
  const catalogue = new Catalogue();
  const long = 'x'.repeat(2 ** 25);
  for (let id = 1n; id <= 5n; id++)
    catalogue.add(
      id,
      id === 2n ? undefined : 'sold',
      toByteString(id === 1n ? long.slice(1) : long),
    );
  catalogue.add(6n, 'sold', toByteString(`${long}${long}${long}`));
  catalogue.add(7n, 'sold', toByteString('short'));
  const walk = (query: { readonly limit: number; readonly status?: 'sold' }) => {
    const pages: number[] = [];
    for (let after: bigint | undefined = 0n; after !== undefined; ) {
      const { texts, next } = catalogue.page({ ...query, after });
      pages.push(texts.length);
      after = next;
    }
    return pages;
  };
  assert.deepEqual(walk({ limit: 100 }), [3, 2, 1, 1]);
  assert.deepEqual(walk({ limit: 100, status: 'sold' }), [3, 2, 1]);
  assert.deepEqual(walk({ limit: 2 }), [2, 2, 2, 1]);
});

const pet = (id: number): StoredText => ({ id: BigInt(id), json: toByteString(`{"id":${id}}`) });

/** Uses a key to its end. */
const use = (keys: IdempotencyKeys, name: string, at: number, id = 1): void =>
  keys.keep(keys.begin(onceOf(name, 'body', at)), pet(id));

test('a key is under way until it is kept or dropped, and then it has its animal or is new', () => {
  const keys = new IdempotencyKeys();
  const first = keys.begin(onceOf('a', 'one'));
  assert.equal(first.added, undefined);
  // Until it has ended nobody knows whether the other body is wrong.
  for (const body of ['one', 'other']) assert.throws(() => keys.begin(onceOf('a', body)), inFlight);
  keys.drop(first);
  const again = keys.begin(onceOf('a', 'other'));
  keys.keep(again, pet(5));
  assert.equal(keys.begin(onceOf('a', 'other')).added?.id, 5n);
  assert.throws(() => keys.begin(onceOf('a', 'one')), mismatch);
});

test('a key that is still under way after 24 hours stays so', () => {
  const keys = new IdempotencyKeys();
  const first = keys.begin(onceOf('a', 'body', 0));
  for (let count = 0; count < 5; count++)
    assert.throws(() => keys.begin(onceOf('a', 'body', 2 * dayMs)), inFlight);
  keys.keep(first, pet(1));
  assert.equal(
    keys.begin(onceOf('a', 'body', 2 * dayMs)).added,
    undefined,
    'its time is that of its first use',
  );
});

test('expired keys go, two for each that comes, and what is kept never grows beyond a day and a little', () => {
  const keys = new IdempotencyKeys();
  for (let index = 0; index < 1000; index++) use(keys, `first ${index}`, index);
  assert.equal(keys.size, 1000);
  for (let index = 0; index < 100; index++) use(keys, `second ${index}`, dayMs + 999);
  assert.equal(keys.size, 900);
  for (let index = 0; index < 900; index++) use(keys, `third ${index}`, dayMs + 999);
  assert.equal(keys.size, 1000);
  use(keys, 'last', 3 * dayMs);
  assert.equal(keys.size, 999);
});

test('what has expired by those behind it goes when it is restored too, and the list begins anew when all of it has gone', () => {
  const keys = new IdempotencyKeys();
  for (let index = 0; index < 4; index++)
    keys.restore(onceOf(`k${index}`, 'body', index), pet(index));
  assert.equal(keys.size, 4);
  keys.restore(onceOf('k4', 'body', dayMs + 1), pet(4));
  assert.equal(keys.size, 3);
  keys.restore(onceOf('k5', 'body', dayMs + 3), pet(5));
  assert.equal(keys.size, 2);
  for (let day = 3; day < 9; day++) {
    use(keys, `day ${day}`, day * dayMs);
    assert.equal(keys.size, 1, `day ${day}`);
  }
});

test('a key of a clock that went wrong by a year keeps none behind it for ever', () => {
  const keys = new IdempotencyKeys();
  use(keys, 'wrong', 365 * dayMs);
  for (let day = 0; day < 9; day++) {
    for (let index = 0; index < 10; index++) use(keys, `${day} ${index}`, day * dayMs);
    assert.ok(keys.size <= 20, `${keys.size} on day ${day}`);
  }
  keys.restore(onceOf('restored', 'body', 365 * dayMs), pet(1));
  assert.ok(keys.size <= 20);
});

test('a key that is used anew does not go with its old use', () => {
  const keys = new IdempotencyKeys();
  for (let index = 0; index < 6; index++) use(keys, `k${index}`, 0);
  use(keys, 'k5', dayMs, 2);
  for (let index = 0; index < 6; index++) use(keys, `new ${index}`, dayMs);
  assert.equal(keys.begin(onceOf('k5', 'body', dayMs)).added?.id, 2n);
});

test('a key has its first animal for just its time, in any order of keys and moments', () => {
  const name = fc.integer({ min: 0, max: 5 });
  const pause = fc.oneof(
    fc.integer({ min: 0, max: 2 }),
    fc.integer({ min: 0, max: 2 * dayMs }),
    fc.constantFrom(dayMs - 1, dayMs),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(name, pause), { maxLength: 60 }), (uses) => {
      const keys = new IdempotencyKeys();
      const plain = new Map<number, { readonly at: number; readonly id: bigint }>();
      let at = 0;
      for (const [index, [name, pause]] of uses.entries()) {
        at += pause;
        const known = plain.get(name);
        const begun = keys.begin(onceOf(String(name), 'body', at));
        assert.equal(
          begun.added?.id,
          known !== undefined && at - known.at < dayMs ? known.id : undefined,
        );
        if (begun.added !== undefined) continue;
        keys.keep(begun, pet(index + 1));
        plain.set(name, { at, id: BigInt(index + 1) });
      }
    }),
  );
});

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));
/** More turns than a commit lets pass at most before the next begins. */
const nextCommit = async (): Promise<void> => {
  for (let turns = 0; turns < 8; turns++) await tick();
};

/**
 * A group commit of texts whose commits end when they are told to; `batches` shows what was
 * committed, `abandoned` what never will be.
 */
function scene(options: Partial<GroupCommitOptions<string, string>> = {}) {
  const batches: (readonly string[])[] = [];
  const abandoned: string[] = [];
  const gates: ReturnType<typeof gate>[] = [];
  const group = groupCommit<string, string>({
    commit: async (items) => {
      batches.push(items);
      const end = gate();
      gates.push(end);
      await end.opened;
      return items.map((item) => item.toUpperCase());
    },
    abandoned: (item) => abandoned.push(item),
    bytesOf: (item) => item.length,
    hung: 'It hangs.',
    ...options,
  });
  /** Ends the oldest commit once it has begun. */
  const end = async (): Promise<void> => {
    await nextCommit();
    gates.shift()?.open();
  };
  return { group, batches, abandoned, end };
}

test('an item that cannot be counted is refused alone, by a promise, and is abandoned', async () => {
  const { group, batches, abandoned, end } = scene({
    bytesOf: (item) => {
      if (item === 'bad') throw new TypeError('bad');
      return item.length;
    },
  });
  const [bad, good, worse] = [group.add('bad'), group.add('good'), group.add('bad')];
  await assert.rejects(bad, TypeError);
  await assert.rejects(worse, TypeError);
  await end();
  assert.equal(await good, 'GOOD');
  assert.deepEqual([batches, abandoned], [[['good']], ['bad', 'bad']]);
});

test('what one turn adds goes together, what comes meanwhile into the next batch, and each gets its own result', async () => {
  const { group, batches, end } = scene();
  const first = [group.add('a'), group.add('b')];
  await tick();
  const second = [group.add('c'), group.add('d')];
  await end();
  assert.deepEqual(batches, [['a', 'b']]);
  assert.deepEqual(await Promise.all(first), ['A', 'B']);
  await end();
  assert.deepEqual(batches[1], ['c', 'd']);
  assert.deepEqual(await Promise.all(second), ['C', 'D']);
});

test('whoever is answered and asks again in the next turns travels along with those who waited', async () => {
  const { group, batches, end } = scene();
  const first = group.add('a');
  await tick();
  const all = [group.add('b')];
  await end();
  await first;
  for (const item of ['c', 'd']) {
    await tick();
    all.push(group.add(item));
  }
  await end();
  assert.deepEqual(batches, [['a'], ['b', 'c', 'd']]);
  assert.deepEqual(await Promise.all(all), ['B', 'C', 'D']);
});

test('more in each turn holds no commit up for longer than five turns, and where nobody comes it begins behind two', async () => {
  for (const [each, turns] of [
    // Of which the first is the test's own.
    ['more', 6],
    ['', 3],
  ] as const) {
    const { group, batches, end } = scene();
    const first = group.add('a');
    await tick();
    const all = [group.add('b')];
    await end();
    await first;
    let passed = 0;
    for (; batches.length < 2; passed++) {
      assert.ok(passed < 20, 'the next commit never begins');
      if (each !== '') all.push(group.add(each));
      await tick();
    }
    assert.equal(passed, turns);
    await end();
    await end();
    await Promise.all(all);
  }
});

test('a commit that fails fails its own batch only, and one that answers too little is an error, not silence', async () => {
  const answers = [() => assert.fail('no'), () => [], (items: readonly string[]) => items];
  const { group } = scene({ commit: async (items) => answers.shift()?.(items) ?? [] });
  await assert.rejects(group.add('a'), /no/);
  await assert.rejects(group.add('a'), TypeError);
  assert.equal(await group.add('b'), 'b');
});

test('C48 beyond 4,096 items, 16 MiB or 2 s of age an add is refused at once', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const { group, end } = scene({ bytesOf: (item) => Number(item) });
  const kept = [group.add('1')];
  await tick();
  kept.push(group.add(String(2 ** 24 - 4_095)));
  await assert.rejects(group.add('4096'), unavailable, 'bytes');
  for (let waiting = 1; waiting < 4_096; waiting++) kept.push(group.add('1'));
  await assert.rejects(group.add('0'), unavailable, 'items');
  await end();
  await nextCommit();
  kept.push(group.add('1'));
  now = 2_000;
  kept.push(group.add('1'));
  now = 2_001;
  await assert.rejects(group.add('1'), unavailable, 'age');
  await end();
  await end();
  assert.equal((await Promise.all(kept)).length, 4_099);
});

test('an item over the bound of bytes is let in where nothing waits', async () => {
  const { group } = scene({ commit: async (items) => items, bytesOf: () => 2 ** 24 + 1 });
  assert.equal(await group.add('long'), 'long');
});

test('a commit that hangs is answered for in time, and when it ends all is well again; what will never be committed is told once each', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { group, batches, abandoned, end } = scene({
    bytesOf: (item) => (item === 'too much' ? 2 ** 24 : 1),
  });
  const under = assert.rejects(group.add('hangs'), unavailable);
  await tick();
  const waits = assert.rejects(group.add('waits'), unavailable);
  await assert.rejects(group.add('too much'), unavailable);
  t.mock.timers.tick(7_999);
  assert.equal(group.hung, false);
  assert.deepEqual(abandoned, ['too much']);
  t.mock.timers.tick(1);
  await Promise.all([under, waits]);
  assert.equal(group.hung, true);
  await assert.rejects(group.add('new'), unavailable);
  assert.deepEqual(abandoned, ['too much', 'waits', 'new'], 'what hangs may still be committed');
  await end();
  await tick();
  assert.equal(group.hung, false);
  const next = group.add('next');
  await end();
  assert.equal(await next, 'NEXT');
  assert.deepEqual(batches, [['hangs'], ['next']]);
  await group.close();
  await assert.rejects(group.add('late'), unavailable);
  assert.equal(abandoned.at(-1), 'late');
});

test('close waits for what was accepted, also where a commit hangs, and refuses the rest', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { group, end } = scene();
  const kept = group.add('a');
  const closing = group.close();
  await assert.rejects(group.add('b'), unavailable);
  await end();
  await closing;
  assert.equal(await kept, 'A');

  const hanging = scene().group;
  const refused = assert.rejects(hanging.add('a'), unavailable);
  const closed = hanging.close();
  await tick();
  t.mock.timers.tick(8_000);
  await Promise.all([closed, refused]);
  await hanging.close();
});
