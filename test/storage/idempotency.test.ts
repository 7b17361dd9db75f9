import '../support/built.js';
import { toByteString } from '../../dist/index.js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { IdempotencyKeys } from '../../dist/engine/index.js';
import { dayMs, inFlight, mismatch, onceOf } from './once.js';
import type { StoredText } from '../../dist/index.js';

const pet = (id: number): StoredText => ({ id: BigInt(id), json: toByteString(`{"id":${id}}`) });

test('a key is under way until it is kept or dropped, and then it has its animal or is new', () => {
  const keys = new IdempotencyKeys();
  const use = keys.begin(onceOf('a', 'one'));
  assert.equal(use.added, undefined);
  assert.throws(() => keys.begin(onceOf('a', 'one')), inFlight);
  assert.throws(
    () => keys.begin(onceOf('a', 'other')),
    inFlight,
    'until it has ended nobody knows whether the other body is wrong',
  );
  keys.drop(use);
  const again = keys.begin(onceOf('a', 'other'));
  keys.keep(again, pet(5));
  assert.equal(keys.begin(onceOf('a', 'other')).added?.id, 5n);
  assert.throws(() => keys.begin(onceOf('a', 'one')), mismatch);
});

test('a key that is still under way after 24 hours stays so', () => {
  const keys = new IdempotencyKeys();
  const use = keys.begin(onceOf('a', 'body', 0));
  for (let count = 0; count < 5; count++)
    assert.throws(() => keys.begin(onceOf('a', 'body', 2 * dayMs)), inFlight);
  keys.keep(use, pet(1));
  assert.equal(
    keys.begin(onceOf('a', 'body', 2 * dayMs)).added,
    undefined,
    'its time is that of its first use',
  );
});

test('expired keys go, two for each that comes, and what is kept never grows beyond a day and a little', () => {
  const keys = new IdempotencyKeys();
  const use = (name: string, at: number): void =>
    keys.keep(keys.begin(onceOf(name, 'body', at)), pet(1));
  for (let index = 0; index < 1000; index++) use(`first ${index}`, index);
  assert.equal(keys.size, 1000);
  for (let index = 0; index < 100; index++) use(`second ${index}`, dayMs + 999);
  assert.equal(keys.size, 900);
  for (let index = 0; index < 900; index++) use(`third ${index}`, dayMs + 999);
  assert.equal(keys.size, 1000);
  use('last', 3 * dayMs);
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
    keys.keep(keys.begin(onceOf(`day ${day}`, 'body', day * dayMs)), pet(day));
    assert.equal(keys.size, 1, `day ${day}`);
  }
});

test('a key of a clock that went wrong by a year keeps none behind it for ever', () => {
  const keys = new IdempotencyKeys();
  keys.keep(keys.begin(onceOf('wrong', 'body', 365 * dayMs)), pet(1));
  for (let day = 0; day < 9; day++) {
    for (let index = 0; index < 10; index++)
      keys.keep(keys.begin(onceOf(`${day} ${index}`, 'body', day * dayMs)), pet(1));
    assert.ok(keys.size <= 20, `${keys.size} on day ${day}`);
  }
  keys.restore(onceOf('restored', 'body', 365 * dayMs), pet(1));
  assert.ok(keys.size <= 20);
});

test('a key that is used anew does not go with its old use', () => {
  const keys = new IdempotencyKeys();
  for (let index = 0; index < 6; index++)
    keys.keep(keys.begin(onceOf(`k${index}`, 'body', 0)), pet(1));
  keys.keep(keys.begin(onceOf('k5', 'body', dayMs)), pet(2));
  for (let index = 0; index < 6; index++)
    keys.keep(keys.begin(onceOf(`new ${index}`, 'body', dayMs)), pet(1));
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
        const use = keys.begin(onceOf(String(name), 'body', at));
        assert.equal(
          use.added?.id,
          known !== undefined && at - known.at < dayMs ? known.id : undefined,
        );
        if (use.added !== undefined) continue;
        keys.keep(use, pet(index + 1));
        plain.set(name, { at, id: BigInt(index + 1) });
      }
    }),
  );
});
