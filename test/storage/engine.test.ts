/** Tests the parts of storages: the catalogue, idempotency keys and the group commit. */
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
import { inFlight, mismatch, unavailable } from './pets.js';
import { dayMs, onceOf } from './once.js';

const statuses = [...petStatuses, undefined];

test('a catalogue finds the same pets as a linear search, with gaps and ids up to 2^63', () => {
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

test('C6 ends a page before its body exceeds 64 MiB, but after at least one text', () => {
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

/** Returns idempotency keys, with functions that begin, use and restore a key by a short name. */
function keysInUse() {
  const keys = new IdempotencyKeys();
  const begin = (key: string, at = 0, body = 'body') => keys.begin(onceOf(key, body, at));
  const use = (key: string, at = 0, id = 1) => keys.keep(begin(key, at), pet(id));
  const restore = (key: string, at: number) => keys.restore(onceOf(key, 'body', at), pet(1));
  return { keys, begin, use, restore };
}

/** Calls `work` `count` times with the index. */
function times(count: number, work: (index: number) => void): void {
  for (let index = 0; index < count; index++) work(index);
}

test('refuses a key in flight, and later returns its pet or accepts the key as new', () => {
  const { keys, begin } = keysInUse();
  const first = begin('a', 0, 'one');
  assert.equal(first.added, undefined);
  // The key may still become new, so that the other body is not a mismatch yet.
  for (const body of ['one', 'other']) assert.throws(() => begin('a', 0, body), inFlight);
  keys.drop(first);
  keys.keep(begin('a', 0, 'other'), pet(5));
  assert.equal(begin('a', 0, 'other').added?.id, 5n);
  assert.throws(() => begin('a', 0, 'one'), mismatch);
});

test('keeps a key in flight beyond 24 hours', () => {
  const { keys, begin } = keysInUse();
  const first = begin('a');
  times(5, () => assert.throws(() => begin('a', 2 * dayMs), inFlight));
  keys.keep(first, pet(1));
  assert.equal(begin('a', 2 * dayMs).added, undefined, 'its time is the time of its first use');
});

test('removes two expired keys for each new key', () => {
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

test('removes expired keys when keys are restored, and starts over when none is left', () => {
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

test('removes expired keys although an earlier key has a time one year ahead', () => {
  const { keys, use, restore } = keysInUse();
  use('wrong', 365 * dayMs);
  times(90, (index) => {
    use(`${index}`, Math.floor(index / 10) * dayMs);
    assert.ok(keys.size <= 20, `${keys.size} after ${index}`);
  });
  restore('restored', 365 * dayMs);
  assert.ok(keys.size <= 20);
});

test('keeps a key that is used again after its first use has expired', () => {
  const { begin, use } = keysInUse();
  times(6, (index) => use(`k${index}`));
  use('k5', dayMs, 2);
  times(6, (index) => use(`new ${index}`, dayMs));
  assert.equal(begin('k5', dayMs).added?.id, 2n);
});

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));
/** Waits for more ticks than the next commit waits. */
const nextCommit = async (): Promise<void> => {
  for (let ticks = 0; ticks < 8; ticks++) await tick();
};

/**
 * Returns a group commit of texts whose commits end by `end`. `batches` has what was committed,
 * `abandoned` what never will be.
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
  /** Expects that the group refuses an item. */
  const refused = (item: string) => assert.rejects(group.add(item), unavailable);
  /** Ends the oldest commit after it has begun. */
  const end = async (): Promise<void> => {
    await nextCommit();
    ends.shift()?.();
  };
  return { group, batches, abandoned, addAll, refused, end };
}

/** Permits a second commit if so many bytes wait. Items in uppercase keep their order. */
const overlapFrom = (bytes: number): Partial<GroupCommitOptions<string, string>> => ({
  overlap: { inAnyOrder: (item) => item === item.toLowerCase(), leastBytes: () => bytes },
});

test('rejects and abandons only the item whose size cannot be computed', async () => {
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

test('commits the items of several ticks together and returns each its own result', async () => {
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

test('begins the next commit after two ticks, or after five while items arrive', async () => {
  for (const [each, ticks] of [
    // The first tick is the test's own.
    ['more', 6],
    ['', 3],
  ] as const) {
    // While more items join the next batch, no second commit takes some of them.
    const { group, batches, end } = scene(overlapFrom(11));
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
    assert.equal(passed, ticks);
    await end();
    await end();
    await Promise.all(all);
  }
});

test('fails only the batch of a failed commit, and rejects a commit with too few results', async () => {
  const results = [() => assert.fail('no'), () => [], (items: readonly string[]) => items];
  const { group } = scene({ commit: async (items) => results.shift()?.(items) ?? [] });
  await assert.rejects(group.add('a'), /no/);
  await assert.rejects(group.add('a'), TypeError);
  assert.equal(await group.add('b'), 'b');
});

test('C48 refuses an insert beyond 4,096 waiting items, 32 MiB or 2 s', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const { group, refused, end } = scene({ bytesOf: Number });
  const kept = [group.add('1')];
  await tick();
  kept.push(group.add(String(2 ** 25 - 4_095)));
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

test('C48 rejects an item that has waited 8 s for other commits, and does not commit it', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const { group, batches, abandoned, refused, end } = scene();
  const first = group.add('first');
  await tick();
  const overdue = refused('overdue');
  now = 1;
  const kept = group.add('kept');
  now = 8_000;
  await end();
  await overdue;
  await nextCommit();
  await end();
  assert.deepEqual(await Promise.all([first, kept]), ['FIRST', 'KEPT']);
  assert.deepEqual([batches, abandoned], [[['first'], ['kept']], ['overdue']]);
});

test('accepts an item of more than 32 MiB if no other item waits', async () => {
  const { group } = scene({ commit: async (items) => items, bytesOf: () => 2 ** 25 + 1 });
  assert.equal(await group.add('long'), 'long');
});

test('refuses items after 8 s of a hung commit, and recovers once it ends', async (t) => {
  const timeouts = mockTimeouts(t);
  const { group, batches, abandoned, addAll, refused, end } = scene({
    bytesOf: (item) => (item === 'waits' || item === 'too much' ? 2 ** 25 : 1),
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
  const next = addAll('next', 'last');
  await end();
  assert.deepEqual(await Promise.all(next), ['NEXT', 'LAST']);
  assert.deepEqual(batches, [['hangs'], ['next', 'last']]);
  await group.close();
  await refused('late');
  assert.equal(abandoned.at(-1), 'late');
});

test('waits on close for accepted items, also if a commit hangs, and refuses new ones', async (t) => {
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

test('commits a second batch at the same time if enough bytes wait, and no third', async () => {
  const { group, batches, addAll, end } = scene(overlapFrom(4));
  const all = addAll('a');
  await nextCommit();
  all.push(...addAll('bb', 'c'));
  await nextCommit();
  assert.deepEqual(batches, [['a']], 'three bytes wait for the first commit');
  all.push(group.add('d'));
  await nextCommit();
  all.push(...addAll('eeee', 'f'));
  await nextCommit();
  assert.deepEqual(batches.slice(1), [['bb', 'c', 'd']]);

  await end();
  await nextCommit();
  assert.deepEqual(batches.slice(2), [['eeee', 'f']]);
  all.push(group.add('g'));
  await end();
  await nextCommit();
  assert.equal(batches.length, 3, 'one byte waits for the last commit in flight');
  await end();
  await end();
  assert.equal((await Promise.all(all)).join(''), 'ABBCDEEEEFG');
});

test('commits a third of the waiting items first and two thirds second, if they are enough', async () => {
  const { batches, addAll, end } = scene(overlapFrom(4));
  for (const [items, wanted] of [
    ['aa bb cc dd ee ff', 'aa bb, cc dd ee ff'],
    ['aa bb cc dd ee f', 'aa bb cc dd ee f'],
  ] as const) {
    const all = addAll(...items.split(' '));
    await nextCommit();
    assert.equal(batches.map((batch) => batch.join(' ')).join(', '), wanted);
    for (const _ of batches.splice(0)) await end();
    await Promise.all(all);
    await nextCommit();
  }
});

test('commits one batch at a time while an item must be committed before later ones', async () => {
  const { group, batches, addAll, end } = scene(overlapFrom(4));
  const all = addAll('A', 'bb', 'cc', 'dd', 'ee');
  await nextCommit();
  all.push(group.add('ffff'));
  await nextCommit();
  assert.equal(batches.length, 1);
  await end();
  await nextCommit();
  all.push(group.add('gggg'));
  await nextCommit();
  assert.deepEqual(batches.slice(1), [['ffff'], ['gggg']]);
  for (const _ of 'ab') await end();
  await Promise.all(all);
});

test('waits on close for both commits, and refuses items while one of them hangs', async (t) => {
  const timeouts = mockTimeouts(t);
  const { group, addAll, refused, end } = scene(overlapFrom(2));
  const under = refused('hangs');
  await nextCommit();
  timeouts.tick(4_000);
  const second = addAll('bb');
  await nextCommit();
  timeouts.tick(4_000);
  await under;
  let isClosed = false;
  const closing = group.close().then(() => (isClosed = true));
  await nextCommit();
  assert.deepEqual([group.hung, isClosed], [true, false]);
  timeouts.tick(4_000);
  await assert.rejects(Promise.all(second), unavailable);
  await closing;
  await end();
  await nextCommit();
  assert.equal(group.hung, true, 'the second commit still hangs');
  await end();
  await nextCommit();
  assert.equal(group.hung, false);
});

test('a second commit is possible after an item was refused by a hung commit', async (t) => {
  const timeouts = mockTimeouts(t);
  const { batches, addAll, refused, end } = scene(overlapFrom(2));
  const under = [refused('hangs')];
  await nextCommit();
  under.push(refused('WAITS'));
  timeouts.tick(8_000);
  await Promise.all(under);
  await end();
  await nextCommit();
  const all = addAll('aa', 'bbbb');
  await nextCommit();
  assert.deepEqual(batches.slice(1), [['aa'], ['bbbb']]);
  for (const _ of all) await end();
  await Promise.all(all);
});
