/**
 * What a storage must show, as plain maps: the pets, the first use of each key, and what is unknown
 * (F10).
 */
import assert from 'node:assert/strict';
import { inspect, isDeepStrictEqual } from 'node:util';
import { insertOnce, onceOf } from '../storage/once.js';
import type { Backend } from './backends.js';
import { inTime } from './row.js';
import { PetstoreError, type Pet, type PetDraft } from '../../dist/index.js';

/** A draft, and the key and the body with which it is added. */
export interface Sent {
  readonly draft: PetDraft;
  readonly by?: { readonly key: number; readonly body: number };
}

/** Adds a pet to a storage; returns it, or the error. */
export function send({ storage }: Backend, { draft, by }: Sent): Promise<Pet | Error> {
  const sending =
    by === undefined
      ? storage.insert(draft)
      : insertOnce(storage, draft, onceOf(`key ${by.key}`, `body ${by.body}`, Date.now()));
  return sending.catch((error: Error) => error);
}

/** Pets by id, the keys of some, and what may be there besides. */
export class PlainMap {
  /** By ascending id. */
  readonly pets: Map<bigint, Pet>;
  /** The first use of each key. */
  readonly keys: Map<number, { readonly body: number; readonly pet: Pet }>;
  /** Inserts that were refused or cut off after their write began (F10). */
  maybe: readonly Sent[];
  #attempts = 0;

  /** Makes an empty map, or an independent copy. */
  constructor({ pets, keys, maybe }: Partial<Pick<PlainMap, 'pets' | 'keys' | 'maybe'>> = {}) {
    this.pets = new Map(pets);
    this.keys = new Map(keys);
    this.maybe = maybe ?? [];
  }

  get lastId(): bigint {
    return [...this.pets.keys()].at(-1) ?? 0n;
  }

  /** Returns a draft for a key, whose name differs from all other attempts. */
  keyed(key: number, body: number, draft: PetDraft): Sent {
    return {
      draft: { ...draft, name: `key ${key}, attempt ${++this.#attempts}` },
      by: { key, body },
    };
  }

  keep({ by }: Sent, pet: Pet): void {
    this.pets.set(pet.id, pet);
    if (by === undefined) return;
    assert.ok(!this.keys.has(by.key), `key ${by.key} has a second animal, ${pet.id}`);
    this.keys.set(by.key, { body: by.body, pet });
  }

  /**
   * Adds a batch, with new keys if any. All get the next ids in order; if something fails, none
   * does. Readers see only what was acknowledged.
   */
  async add(backend: Backend, all: readonly Sent[]): Promise<void> {
    const adding = Promise.all(all.map((sent) => send(backend, sent)));
    const outcomes = await inTime(adding, 'adding');
    const isAdded = !(outcomes[0] instanceof Error);
    for (const [index, sent] of all.entries()) {
      if (isAdded) {
        const pet = { id: this.lastId + 1n, ...sent.draft };
        equal(outcomes[index], pet);
        this.keep(sent, pet);
      } else {
        const error = outcomes[index];
        const isRefused = error instanceof PetstoreError && error.code === 'unavailable';
        assert.ok(isRefused, `an add of a failed batch ends with ${String(error)}`);
      }
    }
    if (!isAdded) this.maybe = [...this.maybe, ...all];
    await backend.holdAdd(isAdded);
    equal(await backend.storage.list({ limit: 10_000 }), [...this.pets.values()]);
  }

  /**
   * Checks after a start that all acknowledged pets are there, and besides them only what was sent.
   * From now on these belong to the map too.
   */
  async adopt({ storage }: Backend): Promise<void> {
    if (!storage.durable) {
      this.pets.clear();
      this.keys.clear();
    }
    const found = await storage.list({ limit: 10_000 });
    equal(found.slice(0, this.pets.size), [...this.pets.values()]);
    for (const pet of found.slice(this.pets.size)) {
      const { id, ...rest } = pet;
      const sent = this.maybe.find(({ draft }) => isDeepStrictEqual(draft, rest));
      assert.ok(id === this.lastId + 1n && sent, `there is an animal that nobody sent: ${id}`);
      this.keep(sent, pet);
    }
    this.maybe = [];
  }

  /** Checks that each used key returns its pet again. */
  async holdKeys(backend: Backend): Promise<void> {
    for (const [key, { body, pet }] of this.keys)
      equal(await send(backend, this.keyed(key, body, pet)), pet);
  }
}

/** Fails unless the values are equal. */
export function equal(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected))
    assert.fail(`answered is ${inspect(actual)}, the map has ${inspect(expected)}`);
}
