/**
 * What a storage must show, as plain maps: the animals, the first use of each key, and what nobody
 * knows of (F10).
 */
import { hold } from './row.js';
import type { Pet, PetDraft } from '../../dist/index.js';

/** What is sent to be added, and by which key with which body. */
export interface Sent {
  readonly draft: PetDraft;
  readonly by?: { readonly key: number; readonly body: number };
}

/** Animals by id, the keys that some were added by, and what may be there besides. */
export class PlainMap {
  /** By ascending id. */
  readonly pets = new Map<bigint, Pet>();
  /** What each key was first used for. */
  readonly keys = new Map<number, { readonly body: number; readonly pet: Pet }>();
  /** Refused or cut off with their write begun (F10). */
  readonly maybe: Sent[] = [];
  #attempts = 0;

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
    hold(!this.keys.has(by.key), `key ${by.key} has a second animal, ${pet.id}`);
    this.keys.set(by.key, { body: by.body, pet });
  }
}
