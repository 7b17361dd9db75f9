/**
 * The expected content of a storage, as plain maps: the pets, the first use of each key, and the
 * inserts with an unknown outcome (F10).
 */
import assert from 'node:assert/strict';
import { inspect, isDeepStrictEqual } from 'node:util';
import { insertOnce, onceOf } from '../storage/once.js';
import type { Backend } from './backends.js';
import { inTime } from './row.js';
import { PetstoreError, type Pet, type PetDraft } from '../../dist/index.js';

/** A draft to add, with an idempotency key and body, if any. */
export interface Sent {
  readonly draft: PetDraft;
  readonly by?: { readonly key: number; readonly body: number };
}

/** Adds a pet to a storage, and returns the stored pet or the error. */
export function send({ storage }: Backend, { draft, by }: Sent): Promise<Pet | Error> {
  const sending =
    by === undefined
      ? storage.insert(draft)
      : insertOnce(storage, draft, onceOf(`key ${by.key}`, `body ${by.body}`, Date.now()));
  return sending.catch((error: Error) => error);
}

/** The expected content of a storage. */
export class PlainMap {
  /** The pets by ascending id. */
  readonly pets: Map<bigint, Pet>;
  /** The first use of each key. */
  readonly keys: Map<number, { readonly body: number; readonly pet: Pet }>;
  /** The inserts that may have been stored, because they failed after their write began (F10). */
  maybe: readonly Sent[];
  #attempts = 0;

  /** Makes an empty map, or a copy of another one. */
  constructor({ pets, keys, maybe }: Partial<Pick<PlainMap, 'pets' | 'keys' | 'maybe'>> = {}) {
    this.pets = new Map(pets);
    this.keys = new Map(keys);
    this.maybe = maybe ?? [];
  }

  get lastId(): bigint {
    return [...this.pets.keys()].at(-1) ?? 0n;
  }

  /** Returns a draft with a key. Its name is unique, so that each attempt can be recognised. */
  keyed(key: number, body: number, draft: PetDraft): Sent {
    return {
      draft: { ...draft, name: `key ${key}, attempt ${++this.#attempts}` },
      by: { key, body },
    };
  }

  keep({ by }: Sent, pet: Pet): void {
    this.pets.set(pet.id, pet);
    if (by === undefined) return;
    assert.ok(!this.keys.has(by.key), `key ${by.key} has a second pet, ${pet.id}`);
    this.keys.set(by.key, { body: by.body, pet });
  }

  /**
   * Adds a batch, whose keys are new. Checks that all pets get the next ids in order, or none is
   * added, and that the storage lists only acknowledged pets.
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
        assert.ok(isRefused, `an add of a failed batch rejected with ${String(error)}`);
      }
    }
    if (!isAdded) this.maybe = [...this.maybe, ...all];
    await backend.checkAdd(isAdded);
    equal(await backend.storage.list({ limit: 10_000 }), [...this.pets.values()]);
  }

  /**
   * Checks after a start that the storage has all acknowledged pets, and apart from them only pets
   * of `maybe`. Adds these to the map.
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
      assert.ok(id === this.lastId + 1n && sent, `pet ${id} was never sent`);
      this.keep(sent, pet);
    }
    this.maybe = [];
  }

  /** Checks that a repeated insert returns the first pet of each key. */
  async checkKeys(backend: Backend): Promise<void> {
    for (const [key, { body, pet }] of this.keys)
      equal(await send(backend, this.keyed(key, body, pet)), pet);
  }
}

/** Fails unless the values are equal. */
export function equal(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected))
    assert.fail(`the storage has ${inspect(actual)}, the map has ${inspect(expected)}`);
}
