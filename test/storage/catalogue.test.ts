import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import '../support/built.js';
import { Catalogue } from '../../dist/engine/index.js';
import { petStatuses, toByteString } from '../../dist/index.js';

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
