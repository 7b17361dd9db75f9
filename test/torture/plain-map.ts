/**
 * What a storage must show, as plain maps: the animals, the first use of each key, and what nobody
 * knows of (F10).
 */
import assert from 'node:assert/strict';
import { inspect, isDeepStrictEqual } from 'node:util';
import { insertOnce, onceOf } from '../storage/once.js';
import type { Backend } from './backends.js';
import { inTime } from './row.js';
import { PetstoreError, type Pet, type PetDraft } from '../../dist/index.js';

/** What is sent to be added, and by which key with which body. */
export interface Sent {
  readonly draft: PetDraft;
  readonly by?: { readonly key: number; readonly body: number };
}

/** Adds to a storage; answers the animal or why there is none. */
export function send({ storage }: Backend, { draft, by }: Sent): Promise<Pet | Error> {
  const sending =
    by === undefined
      ? storage.insert(draft)
      : insertOnce(storage, draft, onceOf(`key ${by.key}`, `body ${by.body}`, Date.now()));
  return sending.catch((error: Error) => error);
}

/** Animals by id, the keys that some were added by, and what may be there besides. */
export class PlainMap {
  /** By ascending id. */
  readonly pets: Map<bigint, Pet>;
  /** What each key was first used for. */
  readonly keys: Map<number, { readonly body: number; readonly pet: Pet }>;
  /** Refused or cut off with their write begun (F10). */
  maybe: readonly Sent[];
  #attempts = 0;

  /** An empty one, or one that shows the same and goes its own way. */
  constructor({ pets, keys, maybe }: Partial<Pick<PlainMap, 'pets' | 'keys' | 'maybe'>> = {}) {
    this.pets = new Map(pets);
    this.keys = new Map(keys);
    this.maybe = maybe ?? [];
  }

  get lastId(): bigint {
    return [...this.pets.keys()].at(-1) ?? 0n;
  }

  /** An animal by a key, which its name tells apart from that of every other attempt. */
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
   * Adds at once, by new keys if by any, which is one batch: all get the next ids in order, or
   * where something failed none does. Readers see what was acknowledged and nothing else.
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
   * Behind a start all that was acknowledged is there, and of what was not only what was once sent;
   * from now on that too.
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

  /** Each key that was used answers its animal again. */
  async holdKeys(backend: Backend): Promise<void> {
    for (const [key, { body, pet }] of this.keys)
      equal(await send(backend, this.keyed(key, body, pet)), pet);
  }
}

/** Fails unless what was answered is what the map has. */
export function equal(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected))
    assert.fail(`answered is ${inspect(actual)}, the map has ${inspect(expected)}`);
}
