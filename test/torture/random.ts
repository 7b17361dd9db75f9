/** Generates random numbers and random pets from a seed. */
import { type PetStatus, petStatuses } from '../../dist/index.js';

export interface Random {
  /** Returns an integer from 0 to below `limit`. */
  readonly below: (limit: number) => number;
  readonly pick: <Item>(items: readonly Item[]) => Item;
  /** Returns the items in random order. */
  readonly shuffled: <Item>(items: readonly Item[]) => readonly Item[];
}

/** Returns random numbers by Mulberry32, which is small and good enough for tests. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  };
  // Returns undefined for an empty list, which no caller passes.
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

/**
 * Returns a random draft. Most are short; one of twenty has up to 40 kB, so that a write is cut.
 */
export function randomDraft({ below, pick }: Random): SentDraft {
  const long = below(20) === 0 ? below(40_000) : below(40);
  const name = `${pick(pieces)}${pick(pieces)}${'x'.repeat(long)}${pick(pieces)}`;
  const status = pick([...petStatuses, undefined]);
  return { name, categoryId: below(2 ** 32) - 2 ** 31, ...(status && { status }) };
}
