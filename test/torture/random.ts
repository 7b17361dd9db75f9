/** Chance that a seed repeats, and the animals that it makes. */
import { type PetStatus, petStatuses } from '../../dist/index.js';

export interface Random {
  /** An integer from 0 to below `limit`. */
  readonly below: (limit: number) => number;
  readonly pick: <Item>(items: readonly Item[]) => Item;
  /** The items in an order by chance. */
  readonly shuffled: <Item>(items: readonly Item[]) => readonly Item[];
}

/** Mulberry32: small, and good enough to choose moments and animals. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  };
  // Of an empty list it answers undefined, which no caller hands over.
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  const shuffled = <Item>(items: readonly Item[]): readonly Item[] =>
    items
      .map((item) => ({ item, at: below(2 ** 32) }))
      .sort((one, other) => one.at - other.at)
      .map(({ item }) => item);
  return { below, pick, shuffled };
}

/** A draft as a client sends it. */
export interface SentDraft {
  readonly name: string;
  readonly categoryId: number;
  readonly status?: PetStatus;
}

const pieces = [
  'Rex',
  'Tüm',
  '猫',
  '🐈',
  '"',
  '\\',
  '\n',
  '\u0000',
  '{"id":1}',
  '{"commit":{"from":0,',
  ' ',
];

/** Mostly a short animal, now and then one of many kilobytes, so that a write can be cut inside. */
export function randomDraft({ below, pick }: Random): SentDraft {
  const long = below(20) === 0 ? below(40_000) : below(40);
  const name = `${pick(pieces)}${pick(pieces)}${'x'.repeat(long)}${pick(pieces)}`;
  const status = pick([...petStatuses, undefined]);
  return { name, categoryId: below(2 ** 32) - 2 ** 31, ...(status && { status }) };
}
