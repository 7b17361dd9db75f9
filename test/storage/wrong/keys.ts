/** Faults that `testInsertOnce` must find. */
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import {
  checkDraft,
  checkKeyUse,
  petJson,
  PetstoreError,
  type IdempotencyKeyUse,
  type Pet,
  type PetDraft,
} from '../../../dist/index.js';
import {
  anyDraft,
  throwOther,
  whenClosed,
  whenInvalid,
  whenMismatched,
  type Fault,
  type Faults,
  type WholeStorage,
} from './fault.js';

type InsertOnce = WholeStorage['insertOnce'];
type Texts = WholeStorage['texts'];

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const digest = 'a'.repeat(64);
/** A valid use of a key, for storages that accept an invalid one. */
const anyUse: IdempotencyKeyUse = { key: digest, body: digest, at: 0 };
const mismatch = new PetstoreError('idempotency_mismatch', 'The key was used with another body.');
const inFlight = new PetstoreError('idempotency_in_flight', 'The first use has not ended.');
const pet = { id: 1n, ...anyDraft };

/** The first use of a key. */
interface FirstUse {
  readonly keyUse: IdempotencyKeyUse;
  readonly draft: PetDraft;
  /** Resolves to the pet of this use. */
  readonly inserting: Promise<Pet>;
  /** The number of first uses of this key that have expired. */
  readonly earlierUses: number;
  isInFlight: boolean;
  repeats: number;
  mismatches: number;
  /** The time of the last repeat. */
  lastAt: number;
}

/** A use of a key, about which a storage decides. */
interface Use {
  readonly keyUse: IdempotencyKeyUse;
  readonly draft: PetDraft;
  readonly right: WholeStorage;
  /** The first uses by the names of their keys. */
  readonly uses: Map<string, FirstUse>;
  /** True if the first use of the key was in flight at the call. */
  readonly isConcurrent: boolean;
}

/** The decisions of a storage about a use of a key. */
interface Decisions {
  /** Returns the name under which a key is kept. */
  readonly nameOf: (keyUse: IdempotencyKeyUse) => string;
  /** Inserts the pet of a first use. */
  readonly insert: (use: Use) => Promise<Pet>;
  /** Returns true if a first use has expired. */
  readonly hasExpired: (first: FirstUse, use: Use) => boolean;
  /** Returns true if a repeat has the body of the first use. */
  readonly isSame: (first: FirstUse, use: Use) => boolean;
  /** Returns the pet of a repeat. */
  readonly repeat: (first: FirstUse, use: Use) => Promise<Pet>;
  /** Returns what a first use resolves to. */
  readonly result: (stored: Pet, first: FirstUse, uses: ReadonlyMap<string, FirstUse>) => Pet;
  /** Is called before a use with another body is rejected. */
  readonly onMismatch: (first: FirstUse, use: Use) => unknown;
}

const rightDecisions: Decisions = {
  nameOf: ({ key }) => key,
  insert: ({ right, draft }) => right.insert(draft),
  hasExpired: (first, use) => ageOf(first, use) >= dayMs,
  isSame: (first, { keyUse }) => keyUse.body === first.keyUse.body,
  repeat: ({ inserting }) => inserting,
  result: (stored) => stored,
  onMismatch: () => undefined,
};

/** Returns the time in milliseconds from the first use to another one. */
function ageOf(first: FirstUse, { keyUse }: Use): number {
  return keyUse.at - first.keyUse.at;
}

/** Returns a fault of `insertOnce`. The methods of the storage and of its `texts` share it. */
const hasOnce =
  (makeInsertOnce: (right: WholeStorage) => InsertOnce): Fault =>
  (right) => {
    const insertOnce = makeInsertOnce(right);
    return {
      insertOnce,
      texts: {
        ...right.texts,
        insertOnce: async (draft, keyUse) => {
          const stored = await insertOnce(draft, keyUse);
          return { id: stored.id, json: petJson(stored.id, stored) };
        },
      },
    };
  };

/** Returns a fault of `texts.insertOnce` alone. */
const hasTextsOnce =
  (makeInsertOnce: (texts: Texts, right: WholeStorage) => Texts['insertOnce']): Fault =>
  (right) => ({ texts: { ...right.texts, insertOnce: makeInsertOnce(right.texts, right) } });

/** Returns a fault of some decisions. */
const decides = (change: Partial<Decisions>): Fault =>
  hasOnce((right) => {
    const decisions = { ...rightDecisions, ...change };
    const uses = new Map<string, FirstUse>();
    return async (draft, keyUse) => {
      checkKeyUse(keyUse);
      checkDraft(draft);
      const name = decisions.nameOf(keyUse);
      const first = uses.get(name);
      const use = { keyUse, draft, right, uses, isConcurrent: first?.isInFlight ?? false };

      if (first === undefined || decisions.hasExpired(first, use)) {
        const added = {
          keyUse,
          draft,
          inserting: decisions.insert(use),
          earlierUses: first === undefined ? 0 : first.earlierUses + 1,
          isInFlight: true,
          repeats: 0,
          mismatches: 0,
          lastAt: keyUse.at,
        };
        uses.set(name, added);
        try {
          return decisions.result(await added.inserting, added, uses);
        } finally {
          added.isInFlight = false;
        }
      }

      // Rejects if the storage is closed.
      await right.ready?.();
      if (!decisions.isSame(first, use)) {
        first.mismatches++;
        await decisions.onMismatch(first, use);
        throw mismatch;
      }
      first.repeats++;
      const stored = await decisions.repeat(first, use);
      first.lastAt = keyUse.at;
      return stored;
    };
  });

/** Returns a fault of an `insertOnce` that makes an invalid use of a key valid. */
const acceptsUse = (change: (keyUse: IdempotencyKeyUse) => IdempotencyKeyUse): Fault =>
  hasOnce(({ insertOnce }) =>
    whenInvalid(insertOnce, (draft, keyUse) => insertOnce(draft, change(keyUse))),
  );

/**
 * Returns a fault of an `insertOnce` that after `close` returns a pet for known or for new keys.
 */
const returnsAfterClose = (isKnown: boolean): Fault =>
  hasOnce(({ insertOnce }) => {
    const known = new Set<string>();
    return whenClosed(
      async (draft, keyUse) => {
        const stored = await insertOnce(draft, keyUse);
        known.add(keyUse.key);
        return stored;
      },
      (draft, keyUse) => (known.has(keyUse.key) === isKnown ? pet : insertOnce(draft, keyUse)),
    );
  });

/** Returns a fault of `close`, after which inserts in flight end by `end`. */
const endsInFlight =
  (end: (stored: Pet) => Pet): Fault =>
  (right) => {
    let isClosed = false;
    const once = hasOnce(({ insertOnce }) => async (draft, keyUse) => {
      const stored = await insertOnce(draft, keyUse);
      return isClosed ? end(stored) : stored;
    });
    return {
      ...once(right),
      close: () => {
        isClosed = true;
        return right.close();
      },
    };
  };

export const keyFaults: Faults = {
  'insertOnce stores a pet once and returns it again for the same key and body': {
    'stores a pet for each use of a key': decides({ hasExpired: () => true }),
    'does not recognise a repeat at the time of the first use': decides({
      hasExpired: (first, use) => ageOf(first, use) === 0,
    }),
    'does not recognise a repeat at another time': decides({
      hasExpired: (first, use) => ageOf(first, use) !== 0,
    }),
    'returns only the id of a first use': decides({ result: ({ id }) => Object({ id }) }),
    'returns only the id of a repeat': decides({
      repeat: async ({ inserting }) => Object({ id: (await inserting).id }),
    }),
    'gives a pet the name of the last key': (right) => {
      let name: string | undefined;
      return {
        insertOnce: async (draft, keyUse) => {
          const stored = await right.insertOnce(draft, keyUse);
          ({ name } = stored);
          return stored;
        },
        insert: async (draft) => ({ ...(await right.insert(draft)), ...(name && { name }) }),
      };
    },
    'takes an id for each repeat': (right) => {
      const ids = new Set<bigint>();
      let repeats = 0n;
      return {
        insertOnce: async (draft, keyUse) => {
          const stored = await right.insertOnce(draft, keyUse);
          if (ids.has(stored.id)) repeats++;
          ids.add(stored.id);
          return stored;
        },
        insert: async (draft) => {
          const stored = await right.insert(draft);
          return { ...stored, id: stored.id + repeats };
        },
      };
    },
    'lists a pet once for each use of its key': (right) => {
      const used: bigint[] = [];
      return {
        insertOnce: async (draft, keyUse) => {
          const stored = await right.insertOnce(draft, keyUse);
          used.push(stored.id);
          return stored;
        },
        list: async (query) =>
          (await right.list(query)).flatMap((each) => {
            const uses = used.filter((id) => id === each.id);
            return uses.length === 0 ? [each] : uses.map(() => each);
          }),
      };
    },
  },

  'texts.insertOnce shares its keys with insertOnce': {
    'has no insertOnce in `texts`': ({ texts }) => {
      const { insertOnce: _insertOnce, ...others } = texts;
      return { texts: others };
    },
    'keeps the keys of `texts` apart': hasTextsOnce((texts) => async (draft, keyUse) => {
      checkKeyUse(keyUse);
      return texts.insertOnce(draft, { ...keyUse, key: [...keyUse.key].reverse().join('') });
    }),
    'marks a first use as a replay': hasTextsOnce((texts) => async (draft, keyUse) => ({
      ...(await texts.insertOnce(draft, keyUse)),
      isReplay: true,
    })),
    'returns no id of a repeat in `texts`': hasTextsOnce((texts) => async (draft, keyUse) => {
      const { id, json, isReplay } = await texts.insertOnce(draft, keyUse);
      return isReplay ? Object({ json }) : { id, json };
    }),
    'returns only the id of a pet whose key `texts` has': (right) => {
      const keys = new Set<string>();
      return {
        insertOnce: async (draft, keyUse) => {
          const stored = await right.insertOnce(draft, keyUse);
          return keys.has(keyUse.key) ? Object({ id: stored.id }) : stored;
        },
        texts: {
          ...right.texts,
          insertOnce: async (draft, keyUse) => {
            const stored = await right.texts.insertOnce(draft, keyUse);
            keys.add(keyUse.key);
            return stored;
          },
        },
      };
    },
    'stores the pet of a repeat in `texts`': hasTextsOnce((texts, right) => {
      return async (draft, keyUse) => {
        const stored = await texts.insertOnce(draft, keyUse);
        if (stored.isReplay) await right.insert(draft);
        return stored;
      };
    }),
  },

  'insertOnce rejects another body for a used key and stores nothing': {
    'ignores the body': decides({ isSame: () => true }),
    'ignores the body in `texts`': hasTextsOnce((texts) =>
      whenMismatched(texts.insertOnce, () => ({ id: 1n, json: petJson(1n, anyDraft) })),
    ),
    'rejects another body with another error': decides({ onMismatch: throwOther }),
    'rejects another body with another error in `texts`': hasTextsOnce((texts) =>
      whenMismatched(texts.insertOnce, throwOther),
    ),
    'forgets a key after another body': decides({
      onMismatch: (first, { uses }) => uses.delete(first.keyUse.key),
    }),
    'rejects the first body after another one': decides({
      isSame: (first, use) => first.mismatches === 0 && rightDecisions.isSame(first, use),
    }),
    'stores the pet of another body': decides({
      onMismatch: (_first, { right, draft }) => right.insert(draft),
    }),
    'ignores the body while the first use is in flight': decides({
      isSame: (first, use) => use.isConcurrent || rightDecisions.isSame(first, use),
    }),
    'rejects another body with another error while the first use is in flight': decides({
      onMismatch: (_first, { isConcurrent }) => isConcurrent && throwOther(),
    }),
    'stores the pet of another body while the first use is in flight': decides({
      onMismatch: (_first, { isConcurrent, right, draft }) => isConcurrent && right.insert(draft),
    }),
  },

  'insertOnce stores a pet for each key, also if the bodies are equal': {
    'recognises a repeat by its body': decides({ nameOf: ({ body }) => body }),
    'reads the first half of a key': decides({ nameOf: ({ key }) => key.slice(0, 32) }),
    'returns an earlier pet for an equal body': decides({
      result: (stored, { keyUse }, uses) => {
        const known = [...uses.values()].find((first) => first.keyUse.body === keyUse.body);
        return known?.keyUse === keyUse ? stored : { ...stored, id: 1n };
      },
    }),
    'returns the pet of the last key for a repeat': decides({
      repeat: (first, { uses }) => ([...uses.values()].at(-1) ?? first).inserting,
    }),
  },

  'insertOnce keeps a key for 24 hours from its first use': {
    'rounds times up to seconds': decides({
      hasExpired: (first, use) => Math.ceil(ageOf(first, use) / 1000) * 1000 >= dayMs,
    }),
    'keeps a key a millisecond too long': decides({
      hasExpired: (first, use) => ageOf(first, use) > dayMs,
    }),
    'keeps a key forever': decides({ hasExpired: () => false }),
    'keeps a key for 24 hours from its last use': decides({
      hasExpired: ({ lastAt }, { keyUse }) => keyUse.at - lastAt >= dayMs,
    }),
    'forgets a first use after 23 hours if the body is the same': decides({
      hasExpired: (first, use) =>
        ageOf(first, use) >= dayMs ||
        (ageOf(first, use) > 23 * hourMs &&
          first.earlierUses === 0 &&
          rightDecisions.isSame(first, use)),
    }),
    'returns no id of the second pet of a key': decides({
      result: (stored, { earlierUses }) => (earlierUses === 1 ? { ...stored, id: 0n } : stored),
    }),
    'rejects another body after 23 hours with another error': decides({
      onMismatch: (first, use) => ageOf(first, use) > 23 * hourMs && throwOther(),
    }),
    'ignores the body after 23 hours': decides({
      isSame: (first, use) => ageOf(first, use) > 23 * hourMs || rightDecisions.isSame(first, use),
    }),
    'keeps a second use for 12 hours': decides({
      hasExpired: (first, use) =>
        ageOf(first, use) >= (first.earlierUses === 0 ? dayMs : 12 * hourMs),
    }),
    'keeps a second use forever': decides({
      hasExpired: (first, use) => first.earlierUses === 0 && ageOf(first, use) >= dayMs,
    }),
  },

  'insertOnce recognises a repeat whose time is before the first use': {
    'does not recognise a time before the first use': decides({
      hasExpired: (first, use) => ageOf(first, use) < 0 || ageOf(first, use) >= dayMs,
    }),
    'keeps a key for 24 hours before its first use': decides({
      hasExpired: (first, use) => Math.abs(ageOf(first, use)) >= dayMs,
    }),
    'keeps a key for 100 days before its first use': decides({
      hasExpired: (first, use) => ageOf(first, use) >= dayMs || ageOf(first, use) < -100 * dayMs,
    }),
    'drops keys that differ from a new one by 24 hours': decides({
      insert: ({ right, draft, keyUse, uses }) => {
        for (const [name, first] of uses)
          if (Math.abs(keyUse.at - first.keyUse.at) >= dayMs) uses.delete(name);
        return right.insert(draft);
      },
    }),
    'stores the pet of a repeat before the first use': decides({
      repeat: async (first, use) => {
        if (ageOf(first, use) < 0) await use.right.insert(use.draft);
        return first.inserting;
      },
    }),
  },

  'concurrent calls of insertOnce with one key store one pet': {
    'stores a pet for each concurrent use': decides({
      hasExpired: (first, use) => use.isConcurrent || ageOf(first, use) >= dayMs,
    }),
    'returns only the id to concurrent uses': decides({
      repeat: async ({ inserting }, { isConcurrent }) => {
        const stored = await inserting;
        return isConcurrent ? Object({ id: stored.id }) : stored;
      },
    }),
    'rejects concurrent uses with another error': decides({
      repeat: ({ inserting }, { isConcurrent }) => (isConcurrent ? throwOther() : inserting),
    }),
    'rejects all concurrent uses': decides({
      insert: async ({ right, draft, keyUse, uses }) => {
        const stored = await right.insert(draft);
        await setImmediate();
        if (uses.get(keyUse.key)?.repeats) throw inFlight;
        return stored;
      },
      repeat: async (_first, { right, isConcurrent }) => {
        if (isConcurrent) throw inFlight;
        return (await right.get(1n)) ?? throwOther();
      },
    }),
    'stores the pets of concurrent uses': decides({
      repeat: async ({ inserting }, { isConcurrent, right, draft }) => {
        if (isConcurrent) await right.insert(draft);
        return inserting;
      },
    }),
    'forgets a key after many repeats': decides({
      hasExpired: (first, use) => first.repeats > 40 || ageOf(first, use) >= dayMs,
    }),
  },

  'concurrent calls of insertOnce with different keys store a pet each': {
    'returns the last name for concurrent uses': decides({
      insert: async ({ right, draft, uses }) => {
        const stored = await right.insert(draft);
        return { ...stored, name: [...uses.values()].at(-1)?.draft.name ?? '' };
      },
    }),
    'keeps 50 keys': decides({
      insert: ({ right, draft, uses }) => {
        const [oldest] = uses.keys();
        if (oldest !== undefined && uses.size >= 50) uses.delete(oldest);
        return right.insert(draft);
      },
    }),
    'stores a pet once for equal concurrent inserts': ({ insert }) => {
      const inserting = new Map<string, Promise<Pet>>();
      return {
        insert: (draft) => {
          const known = inserting.get(draft.name);
          if (known !== undefined) return known;
          const added = insert(draft);
          inserting.set(draft.name, added);
          return added;
        },
      };
    },
  },

  'insertOnce rejects an invalid key use or draft with a TypeError and keeps no key': {
    'accepts no use of a key': acceptsUse((use) => use ?? anyUse),
    'accepts an empty use of a key': acceptsUse((use) =>
      typeof use === 'object' && inspect(use) === '{}' ? anyUse : use,
    ),
    'accepts a text as a use of a key': acceptsUse((use) =>
      typeof use === 'string' ? anyUse : use,
    ),
    'accepts a short key': acceptsUse((use) => ({ ...use, key: use?.key?.padEnd(64, '0') })),
    'accepts a key in uppercase': acceptsUse((use) => ({ ...use, key: use?.key?.toLowerCase() })),
    'accepts a long key': acceptsUse((use) => ({ ...use, key: use?.key?.slice(0, 64) })),
    'accepts a key that ends with a line break': acceptsUse((use) => ({
      ...use,
      key: use?.key?.replace('\n', '0'),
    })),
    'accepts a use without a key': acceptsUse((use) => ({ ...use, key: use?.key ?? digest })),
    'accepts a use without a body': acceptsUse((use) => ({ ...use, body: use?.body ?? digest })),
    'accepts any letter in a body': acceptsUse((use) => ({
      ...use,
      body: use?.body?.replace(/[g-z]/g, '0'),
    })),
    'accepts a time before 1970': acceptsUse((use) => ({ ...use, at: use?.at < 0 ? 0 : use?.at })),
    'accepts parts of a millisecond': acceptsUse((use) => ({
      ...use,
      at: Number.isFinite(use?.at) ? Math.trunc(use.at) : use?.at,
    })),
    'accepts a time that is not a number': acceptsUse((use) => ({
      ...use,
      at: Number.isNaN(use?.at) ? 0 : use?.at,
    })),
    'accepts a time after the year 9999': acceptsUse((use) => ({
      ...use,
      at: use?.at > 1e14 ? 0 : use?.at,
    })),
    'accepts a text as a time': acceptsUse((use) => ({ ...use, at: Number(use?.at) })),
    'accepts an invalid use of a key in `texts`': hasTextsOnce((texts) =>
      whenInvalid(texts.insertOnce, (draft) => ({ id: 1n, json: petJson(1n, draft) })),
    ),
    'rejects an invalid use of a key with another error': hasOnce(({ insertOnce }) =>
      whenInvalid(insertOnce, (draft) => {
        checkDraft(draft);
        return throwOther();
      }),
    ),
    'accepts half a character with a key': hasOnce(({ insertOnce }) =>
      whenInvalid(insertOnce, (draft, keyUse) =>
        insertOnce({ ...draft, name: draft.name.toWellFormed() }, keyUse),
      ),
    ),
    'rejects an invalid draft with another error': hasOnce(({ insertOnce }) =>
      whenInvalid(insertOnce, (_draft, keyUse) => {
        checkKeyUse(keyUse);
        return throwOther();
      }),
    ),
    'stores a pet before it checks the use of a key': hasOnce(({ insert, insertOnce }) =>
      whenInvalid(insertOnce, async (draft, keyUse) => {
        await insert(anyDraft);
        return insertOnce(draft, keyUse);
      }),
    ),
    'lists the draft of an invalid use': (right) => {
      const invalid: Pet[] = [];
      const once = hasOnce(({ insertOnce }) =>
        whenInvalid(insertOnce, (draft, keyUse) => {
          invalid.push({ id: 0n, ...draft });
          return insertOnce(draft, keyUse);
        }),
      );
      return {
        ...once(right),
        list: async (query) => [...(await right.list(query)), ...invalid],
      };
    },
    'keeps the key of an invalid draft': hasOnce(({ insertOnce }) => {
      const kept = new Set<unknown>();
      return whenInvalid(
        async (draft, keyUse) => {
          if (kept.has(keyUse?.key)) throw mismatch;
          return insertOnce(draft, keyUse);
        },
        (draft, keyUse) => {
          checkKeyUse(keyUse);
          kept.add(keyUse.key);
          return insertOnce(draft, keyUse);
        },
      );
    }),
    'rejects the first time': hasOnce(({ insertOnce }) => async (draft, keyUse) => {
      if (keyUse?.at === 0) throw new TypeError('at must be positive');
      return insertOnce(draft, keyUse);
    }),
  },

  'close finishes calls of insertOnce in flight and rejects later calls': {
    'drops uses in flight': endsInFlight(() => {
      throw new PetstoreError('unavailable', 'The storage is closed.');
    }),
    'returns no ids of uses in flight': endsInFlight(({ id: _id, ...draft }) => Object(draft)),
    'repeats a use after close': returnsAfterClose(true),
    'stores a use after close': returnsAfterClose(false),
    'stores a use after close, but not in `texts`': ({ insertOnce }) => ({
      insertOnce: whenClosed(insertOnce, () => pet),
    }),
    'stores a use in `texts` after close': hasTextsOnce((texts) =>
      whenClosed(texts.insertOnce, () => ({ id: 1n, json: petJson(1n, anyDraft) })),
    ),
    'rejects a use after close with another error': hasOnce(({ insertOnce }) =>
      whenClosed(insertOnce, throwOther),
    ),
  },
};
