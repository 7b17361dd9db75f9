/** The parts that storages are made of: the catalogue, idempotency keys, the group commit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import '../support/built.js';
import { mockTimeouts } from '../support/timers.js';
import {
  Catalogue,
  groupCommit,
  IdempotencyKeys,
  type GroupCommitOptions,
} from '../../dist/engine/index.js';
import { petStatuses, toByteString, type StoredText } from '../../dist/index.js';
import { inFlight, mismatch, unavailable } from './animals.js';
import { dayMs, onceOf } from './once.js';

const statuses = [...petStatuses, undefined];

test('a catalogue with gaps between its ids, of more than it has room for at first, answers as a plain search would, also past the numbers that a double holds', () => {
  assert.equal(new Catalogue().lastId, 0n);
  for (const start of [0n, 2n ** 53n - 50n, 2n ** 63n - 3_300n]) {
    const catalogue = new Catalogue();
    const pets = Array.from({ length: 1_100 }, (_, index) => ({
      id: start + BigInt(3 * index + (index % 2) + 1),
      status: statuses[(7 * index) % statuses.length],
      text: toByteString(`text ${index}`),
    }));
    for (const { id, status, text } of pets) catalogue.add(id, text, { status });
    assert.equal(catalogue.lastId, start + 3_299n);
    for (const { id, text } of pets) {
      assert.equal(catalogue.get(id), text);
      assert.equal(catalogue.get(id + 1n), undefined);
    }
    for (let after = start - 3n; after < start + 3_305n; after += 5n) {
      for (const wanted of statuses) {
        const matching = pets
          .filter(({ id, status }) => id > after && (wanted ?? status) === status)
          .slice(0, 9);
        for (const limit of [1, 8]) {
          const page = catalogue.page({ limit, after, ...(wanted && { status: wanted }) });
          const texts = matching.slice(0, limit).map(({ text }) => text);
          assert.deepEqual(page.texts, texts);
          assert.equal(page.next, matching.length > limit ? matching[limit - 1]?.id : undefined);
        }
      }
    }
  }
});

test('C6 ends a page so that its body has at most 64 MiB, or one text', () => {
  const catalogue = new Catalogue();
  const long = 'x'.repeat(2 ** 25);
  // With brackets and a comma the first two have exactly 64 MiB.
  const both = [long.slice(2), long.slice(1)];
  const texts = [...both, long, long, long.repeat(3), 'short'].map(toByteString);
  for (const [index, text] of texts.entries())
    catalogue.add(BigInt(index + 1), text, index === 1 ? {} : { status: 'sold' });
  const walk = (query: { readonly limit: number; readonly status?: 'sold' }) => {
    const pages: number[] = [];
    for (let after: bigint | undefined = 0n; after !== undefined; ) {
      const { texts, next } = catalogue.page({ ...query, after });
      pages.push(texts.length);
      after = next;
    }
    return pages;
  };
  assert.deepEqual(walk({ limit: 100 }), [2, 1, 1, 1, 1]);
  assert.deepEqual(walk({ limit: 100, status: 'sold' }), [1, 1, 1, 1, 1]);
  assert.deepEqual(walk({ limit: 2 }), [2, 1, 1, 1, 1]);
});

const pet = (id: number): StoredText => ({ id: BigInt(id), json: toByteString(`{"id":${id}}`) });

/** Idempotency keys that are used by short names: begun, or used to their end. */
function keysInUse() {
  const keys = new IdempotencyKeys();
  const begin = (key: string, at = 0, body = 'body') => keys.begin(onceOf(key, body, at));
  const use = (key: string, at = 0, id = 1) => keys.keep(begin(key, at), pet(id));
  const restore = (key: string, at: number) => keys.restore(onceOf(key, 'body', at), pet(1));
  return { keys, begin, use, restore };
}

/** Does it so often. */
function times(count: number, work: (index: number) => void): void {
  for (let index = 0; index < count; index++) work(index);
}

test('a key is under way until it is kept or dropped, and then it has its animal or is new', () => {
  const { keys, begin } = keysInUse();
  const first = begin('a', 0, 'one');
  assert.equal(first.added, undefined);
  // Until it has ended nobody knows whether the other body is wrong.
  for (const body of ['one', 'other']) assert.throws(() => begin('a', 0, body), inFlight);
  keys.drop(first);
  keys.keep(begin('a', 0, 'other'), pet(5));
  assert.equal(begin('a', 0, 'other').added?.id, 5n);
  assert.throws(() => begin('a', 0, 'one'), mismatch);
});

test('a key that is still under way after 24 hours stays so', () => {
  const { keys, begin } = keysInUse();
  const first = begin('a');
  times(5, () => assert.throws(() => begin('a', 2 * dayMs), inFlight));
  keys.keep(first, pet(1));
  assert.equal(begin('a', 2 * dayMs).added, undefined, 'its time is that of its first use');
});

test('expired keys go, two for each that comes, and what is kept never grows beyond a day and a little', () => {
  const { keys, use } = keysInUse();
  times(1000, (index) => use(`first ${index}`, index));
  assert.equal(keys.size, 1000);
  times(100, (index) => use(`second ${index}`, dayMs + 999));
  assert.equal(keys.size, 900);
  times(900, (index) => use(`third ${index}`, dayMs + 999));
  assert.equal(keys.size, 1000);
  use('last', 3 * dayMs);
  assert.equal(keys.size, 999);
});

test('what has expired by those behind it goes when it is restored too, and the list begins anew when all of it has gone', () => {
  const { keys, use, restore } = keysInUse();
  times(4, (index) => restore(`k${index}`, index));
  assert.equal(keys.size, 4);
  restore('k4', dayMs + 1);
  assert.equal(keys.size, 3);
  restore('k5', dayMs + 3);
  assert.equal(keys.size, 2);
  for (let day = 3; day < 9; day++) {
    use(`day ${day}`, day * dayMs);
    assert.equal(keys.size, 1, `day ${day}`);
  }
});

test('a key of a clock that went wrong by a year keeps none behind it for ever', () => {
  const { keys, use, restore } = keysInUse();
  use('wrong', 365 * dayMs);
  times(90, (index) => {
    use(`${index}`, Math.floor(index / 10) * dayMs);
    assert.ok(keys.size <= 20, `${keys.size} behind ${index}`);
  });
  restore('restored', 365 * dayMs);
  assert.ok(keys.size <= 20);
});

test('a key that is used anew does not go with its old use', () => {
  const { begin, use } = keysInUse();
  times(6, (index) => use(`k${index}`));
  use('k5', dayMs, 2);
  times(6, (index) => use(`new ${index}`, dayMs));
  assert.equal(begin('k5', dayMs).added?.id, 2n);
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
  const ends: (() => void)[] = [];
  const group = groupCommit<string, string>({
    commit: async (items) => {
      batches.push(items);
      await new Promise<void>((resolve) => ends.push(resolve));
      return items.map((item) => item.toUpperCase());
    },
    abandoned: (item) => abandoned.push(item),
    bytesOf: (item) => item.length,
    hung: 'It hangs.',
    ...options,
  });
  const addAll = (...items: readonly string[]) => items.map(group.add);
  /** Expects that adding is refused, because too much waits, a commit hangs, or it is closed. */
  const refused = (item: string) => assert.rejects(group.add(item), unavailable);
  /** Ends the oldest commit once it has begun. */
  const end = async (): Promise<void> => {
    await nextCommit();
    ends.shift()?.();
  };
  return { group, batches, abandoned, addAll, refused, end };
}

test('an item that cannot be counted is refused alone, by a promise, and is abandoned', async () => {
  const { batches, abandoned, addAll, end } = scene({
    bytesOf: (item) => {
      if (item === 'bad') throw new TypeError('bad');
      return item.length;
    },
  });
  const [bad = assert.fail(), good, worse = assert.fail()] = addAll('bad', 'good', 'bad');
  await assert.rejects(bad, TypeError);
  await assert.rejects(worse, TypeError);
  await end();
  assert.equal(await good, 'GOOD');
  assert.deepEqual([batches, abandoned], [[['good']], ['bad', 'bad']]);
});

test('what one turn adds goes together; whoever is answered and asks again in the next turns travels along with those who came meanwhile, and each gets its own result', async () => {
  const { group, batches, addAll, end } = scene();
  const first = addAll('a', 'b');
  await tick();
  const others = addAll('c', 'd');
  await end();
  assert.deepEqual(await Promise.all(first), ['A', 'B']);
  for (const item of ['e', 'f']) {
    await tick();
    others.push(group.add(item));
  }
  await end();
  assert.deepEqual(batches, [
    ['a', 'b'],
    ['c', 'd', 'e', 'f'],
  ]);
  assert.deepEqual(await Promise.all(others), ['C', 'D', 'E', 'F']);
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
  const { group, refused, end } = scene({ bytesOf: Number });
  const kept = [group.add('1')];
  await tick();
  kept.push(group.add(String(2 ** 24 - 4_095)));
  await refused('4096');
  for (let waiting = 1; waiting < 4_096; waiting++) kept.push(group.add('1'));
  await refused('0');
  await end();
  await nextCommit();
  kept.push(group.add('1'));
  now = 2_000;
  kept.push(group.add('1'));
  now = 2_001;
  await refused('1');
  await end();
  await end();
  assert.equal((await Promise.all(kept)).length, 4_099);
});

test('an item over the bound of bytes is let in where nothing waits', async () => {
  const { group } = scene({ commit: async (items) => items, bytesOf: () => 2 ** 24 + 1 });
  assert.equal(await group.add('long'), 'long');
});

test('a commit that hangs is answered for in time, and when it ends all is well again; what will never be committed is told once each', async (t) => {
  const timeouts = mockTimeouts(t);
  const { group, batches, abandoned, refused, end } = scene({
    bytesOf: (item) => (item === 'too much' ? 2 ** 24 : 1),
  });
  const under = refused('hangs');
  await tick();
  const waits = refused('waits');
  await refused('too much');
  timeouts.tick(7_999);
  assert.equal(group.hung, false);
  assert.deepEqual(abandoned, ['too much']);
  timeouts.tick(1);
  await Promise.all([under, waits]);
  assert.equal(group.hung, true);
  await refused('new');
  assert.deepEqual(abandoned, ['too much', 'waits', 'new'], 'what hangs may still be committed');
  await end();
  await tick();
  assert.equal(group.hung, false);
  const next = group.add('next');
  await end();
  assert.equal(await next, 'NEXT');
  assert.deepEqual(batches, [['hangs'], ['next']]);
  await group.close();
  await refused('late');
  assert.equal(abandoned.at(-1), 'late');
});

test('close waits for what was accepted, also where a commit hangs, and refuses the rest', async (t) => {
  const timeouts = mockTimeouts(t);
  const { group, refused, end } = scene();
  const kept = group.add('a');
  const closing = group.close();
  await refused('b');
  await end();
  await closing;
  assert.equal(await kept, 'A');

  const hanging = scene();
  const late = hanging.refused('a');
  const closed = hanging.group.close();
  await tick();
  timeouts.tick(8_000);
  await Promise.all([closed, late]);
  await hanging.group.close();
});
