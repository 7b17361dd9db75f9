import assert from 'node:assert/strict';
import { test } from 'node:test';
import { groupCommit, type GroupCommitOptions } from '../../dist/engine/index.js';
import { gate } from '../support/waiting.js';

const unavailable = { code: 'unavailable' };
const tick = () => new Promise<void>((resolve) => setImmediate(resolve));
/** More turns than a commit lets pass at most before the next begins. */
const nextCommit = async (): Promise<void> => {
  for (let turns = 0; turns < 8; turns++) await tick();
};

/**
 * A group commit of texts whose commits end when `gates` say so; `batches` shows what was
 * committed.
 */
function scene(options: Partial<GroupCommitOptions<string, string>> = {}) {
  const batches: (readonly string[])[] = [];
  const gates: ReturnType<typeof gate>[] = [];
  const group = groupCommit<string, string>({
    commit: async (items) => {
      batches.push(items);
      const end = gate();
      gates.push(end);
      await end.opened;
      return items.map((item) => item.toUpperCase());
    },
    abandoned: () => undefined,
    bytesOf: (item) => item.length,
    hung: 'It hangs.',
    ...options,
  });
  return { group, batches, gates };
}

test('an item that cannot be counted is refused alone, by a promise, and is abandoned', async () => {
  const abandoned: string[] = [];
  const bytesOf = (item: string): number => {
    if (item === 'bad') throw new TypeError('bad');
    return item.length;
  };
  const { group, batches, gates } = scene({ bytesOf, abandoned: (item) => abandoned.push(item) });
  const [bad, good, worse] = [group.add('bad'), group.add('good'), group.add('bad')];
  await assert.rejects(bad, TypeError);
  await assert.rejects(worse, TypeError);
  await tick();
  gates[0]?.open();
  assert.equal(await good, 'GOOD');
  assert.deepEqual([batches, abandoned], [[['good']], ['bad', 'bad']]);
});

test('what one turn adds goes together, what comes meanwhile into the next batch, and each gets its own result', async () => {
  const { group, batches, gates } = scene();
  const first = [group.add('a'), group.add('b')];
  await tick();
  const second = [group.add('c'), group.add('d')];
  assert.deepEqual(batches, [['a', 'b']]);
  gates[0]?.open();
  assert.deepEqual(await Promise.all(first), ['A', 'B']);
  await nextCommit();
  assert.deepEqual(batches, [
    ['a', 'b'],
    ['c', 'd'],
  ]);
  gates[1]?.open();
  assert.deepEqual(await Promise.all(second), ['C', 'D']);
});

test('whoever is answered and asks again in the next turns travels along with those who waited', async () => {
  const { group, batches, gates } = scene();
  const first = group.add('a');
  await tick();
  const all = [group.add('b')];
  gates[0]?.open();
  await first;
  await tick();
  all.push(group.add('c'));
  await tick();
  all.push(group.add('d'));
  await nextCommit();
  assert.deepEqual(batches, [['a'], ['b', 'c', 'd']]);
  gates[1]?.open();
  assert.deepEqual(await Promise.all(all), ['B', 'C', 'D']);
});

test('more in each turn holds no commit up for longer than five turns, and where nobody comes it begins behind two', async () => {
  for (const [each, turns] of [
    // Of which the first is the test's own.
    ['more', 6],
    ['', 3],
  ] as const) {
    const { group, batches, gates } = scene();
    const first = group.add('a');
    await tick();
    const all = [group.add('b')];
    gates[0]?.open();
    await first;
    let passed = 0;
    for (; batches.length < 2; passed++) {
      assert.ok(passed < 20, 'the next commit never begins');
      if (each !== '') all.push(group.add(each));
      await tick();
    }
    assert.equal(passed, turns);
    gates[1]?.open();
    await all[0];
    await nextCommit();
    gates[2]?.open();
    await Promise.all(all);
  }
});

test('a commit that fails fails its own batch only', async () => {
  let calls = 0;
  const { group } = scene({
    commit: async (items) => {
      if (++calls === 1) throw new Error('no');
      return items;
    },
  });
  await assert.rejects(group.add('a'), /no/);
  assert.equal(await group.add('b'), 'b');
});

test('a commit that answers too little is an error, not silence', async () => {
  const { group } = scene({ commit: async () => [] });
  await assert.rejects(group.add('a'), TypeError);
});

test('C48 beyond 4,096 items, 16 MiB or 2 s of age an add is refused at once', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const { group, gates } = scene({ bytesOf: (item) => Number(item) });
  const kept = [group.add('1')];
  await tick();
  kept.push(group.add(String(2 ** 24 - 4_095)));
  await assert.rejects(group.add('4096'), unavailable, 'bytes');
  for (let waiting = 1; waiting < 4_096; waiting++) kept.push(group.add('1'));
  await assert.rejects(group.add('0'), unavailable, 'items');
  gates[0]?.open();
  await kept[0];
  await nextCommit();
  kept.push(group.add('1'));
  now = 2_000;
  kept.push(group.add('1'));
  now = 2_001;
  await assert.rejects(group.add('1'), unavailable, 'age');
  gates[1]?.open();
  await kept[1];
  await nextCommit();
  gates[2]?.open();
  assert.equal((await Promise.all(kept)).length, 4_099);
});

test('an item over the bound of bytes is let in where nothing waits', async () => {
  const { group } = scene({ commit: async (items) => items, bytesOf: () => 2 ** 24 + 1 });
  assert.equal(await group.add('long'), 'long');
});

test('a commit that hangs is answered for in time, and when it ends all is well again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { group, batches, gates } = scene();
  const under = assert.rejects(group.add('hangs'), unavailable);
  await tick();
  const waits = assert.rejects(group.add('waits'), unavailable);
  t.mock.timers.tick(7_999);
  assert.equal(group.hung, false);
  t.mock.timers.tick(1);
  await Promise.all([under, waits]);
  assert.equal(group.hung, true);
  await assert.rejects(group.add('new'), unavailable);
  gates[0]?.open();
  await tick();
  assert.equal(group.hung, false);
  const next = group.add('next');
  await nextCommit();
  gates[1]?.open();
  assert.equal(await next, 'NEXT');
  assert.deepEqual(
    batches,
    [['hangs'], ['next']],
    'what was refused while waiting is never committed',
  );
});

test('what will never be committed is told once each: what was refused, and what waited while a commit hangs', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const abandoned: string[] = [];
  const { group, gates } = scene({
    bytesOf: (item) => (item === 'too much' ? 2 ** 24 : 1),
    abandoned: (item) => abandoned.push(item),
  });
  const under = assert.rejects(group.add('hangs'), unavailable);
  await tick();
  const waits = assert.rejects(group.add('waits'), unavailable);
  await assert.rejects(group.add('too much'), unavailable);
  assert.deepEqual(abandoned, ['too much']);
  t.mock.timers.tick(8_000);
  await Promise.all([under, waits]);
  assert.deepEqual(abandoned, ['too much', 'waits'], 'what hangs may still be committed');
  gates[0]?.open();
  await tick();
  await group.close();
  await assert.rejects(group.add('late'), unavailable);
  assert.deepEqual(abandoned, ['too much', 'waits', 'late']);
});

test('close waits for what was accepted, also where a commit hangs, and refuses the rest', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { group, gates } = scene();
  const kept = group.add('a');
  const closing = group.close();
  await assert.rejects(group.add('b'), unavailable);
  await tick();
  gates[0]?.open();
  await closing;
  assert.equal(await kept, 'A');

  const hanging = scene();
  const refused = assert.rejects(hanging.group.add('a'), unavailable);
  const closed = hanging.group.close();
  await tick();
  t.mock.timers.tick(8_000);
  await Promise.all([closed, refused]);
  await hanging.group.close();
});
