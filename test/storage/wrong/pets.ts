/** Storages that break a rule of `testStorage`. */
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import {
  checkQuery,
  petFields,
  petJson,
  PetstoreError,
  toByteString,
  type ByteString,
  type Pet,
  type PetDraft,
  type PetQuery,
  type StoredText,
  type TextPage,
} from '../../../dist/index.js';
import {
  anyDraft,
  cannotBeClosedAgain,
  invalidQueryFaults,
  lastCallFirst,
  throwOther,
  whenClosed,
  whenInvalid,
  type Fault,
  type Faults,
  type WholeStorage,
} from './fault.js';

type Texts = WholeStorage['texts'];

/** Returns JSON in UTF-8 with a change of its text. */
const edited = (json: ByteString, change: (text: string) => string): ByteString =>
  toByteString(change(Buffer.from(json, 'latin1').toString()));

/**
 * Returns a fault of an insert that stores another draft than it got, but returns the right pet.
 */
const stores =
  (change: (draft: PetDraft) => PetDraft): Fault =>
  ({ insert }) => ({
    insert: async (draft) => ({ id: (await insert(change(draft))).id, ...draft }),
  });

/** Returns a fault of an insert that gives invalid members a valid value. */
const accepts =
  (change: (draft: PetDraft) => PetDraft): Fault =>
  ({ insert }) => ({ insert: whenInvalid(insert, (draft) => insert(change(draft))) });

/** Returns a fault of `list`, which gets the pets of a query. */
const lists =
  (change: (pets: readonly Pet[], query: PetQuery, right: WholeStorage) => unknown): Fault =>
  (right) => ({
    // A storage in JavaScript may return anything.
    list: async (query) => change(await right.list(query), query, right) as readonly Pet[],
  });

/** Returns a fault of `list` that changes the query. */
const queries =
  (change: (query: PetQuery) => PetQuery): Fault =>
  ({ list }) => ({
    list: async (query) => {
      checkQuery(query);
      return list(change(query));
    },
  });

/** Returns a fault of `list` that changes an invalid query to a valid one. */
const acceptsQuery =
  (change: (query: PetQuery) => PetQuery): Fault =>
  ({ list }) => ({ list: whenInvalid(list, (query) => list(change(query))) });

/** Returns a fault of `texts`. */
const hasTexts =
  (change: (texts: Texts, right: WholeStorage) => Partial<Texts>): Fault =>
  (right) => ({ texts: { ...right.texts, ...change(right.texts, right) } });

/** Returns a fault of `texts.insert`. */
const returnsText = (change: (stored: StoredText) => StoredText): Fault =>
  hasTexts((texts) => ({ insert: async (draft) => change(await texts.insert(draft)) }));

/** Returns a fault of the pages of `texts.list`. */
const hasPages = (
  change: (page: TextPage, query: PetQuery, right: WholeStorage) => unknown,
): Fault =>
  hasTexts((texts, right) => ({
    // A storage in JavaScript may return anything.
    list: async (query) => change(await texts.list(query), query, right) as TextPage,
  }));

const [minInt64, maxInt64] = [-(2n ** 63n), 2n ** 63n - 1n];

/** Changes of a name that other programs make. */
const nameChanges: Readonly<Record<string, (name: string) => string>> = {
  'trims names': (name) => name.trim(),
  'trims spaces of names': (name) => name.replace(/^ +| +$/g, ''),
  'ends a name at a zero byte': (name) => name.replace(/\0.*/s, ''),
  'drops a byte order mark': (name) => name.replace(/^\uFEFF/, ''),
  'drops characters that are not assigned': (name) => name.replace('\uFFFF', ''),
  'composes characters': (name) => name.normalize('NFC'),
  'has room for three bytes per character': (name) => name.replace(/[^\0-\uFFFF]/gu, '?'),
  'has names in Latin-1': (name) => name.replace(/[^\0-\xff\ud800-\udfff]/gu, '?'),
  'encodes Latin-1 twice': (name) =>
    /^[ -\xff]+$/.test(name) ? Buffer.from(name).toString('latin1') : name,
  'has no Chinese characters': (name) => name.replace(/[\u4e00-\u9fff]/g, '?'),
  'cuts a name after 65,535 characters': (name) => name.slice(0, 65_535),
  'writes line breaks of one character': (name) => name.replaceAll('\r\n', '\n'),
  'drops backslashes': (name) => name.replaceAll('\\', ''),
  'reads digits as a number': (name) => name.replace(/^0+(?=\d)/, ''),
  'decodes names as parts of a URL': (name) => name.replace('%20', ' ').replace('+', ' '),
  'escapes names for HTML': (name) => name.replace('<', '&lt;'),
  'reads null as no name': (name) => name.replace(/^null$/, ''),
  'replaces an empty name': (name) => name || 'unnamed',
};

/** Changes of a category that other programs make. */
const categoryChanges: Readonly<Record<string, (categoryId: bigint) => bigint>> = {
  'has no room for the smallest category': (id) => (id === minInt64 ? id + 1n : id),
  'has no room for the largest category': (id) => (id === maxInt64 ? id - 1n : id),
  'keeps categories of up to 60 bits as doubles': (id) =>
    BigInt.asIntN(60, id) === id ? BigInt(Number(id)) : id,
  'reads the category 0 as none': (id) => id || 1n,
};

/** Returns a pet whose category went through a double. */
const rounded = (pet: Pet): Pet => ({
  ...pet,
  categoryId: BigInt.asIntN(64, BigInt(Number(pet.categoryId))),
});

/** Shows each second pet a few ticks later than it could, although `insert` waits for that. */
const showsPetsOutOfOrder: Fault = ({ insert, list }) => {
  const hidden = new Set<bigint>();
  return {
    insert: async (draft) => {
      const pet = await insert(draft);
      if (pet.id % 2n === 0n) return pet;

      hidden.add(pet.id);
      for (let ticks = 0; ticks < 3; ticks++) await setImmediate();
      hidden.delete(pet.id);
      return pet;
    },
    list: async (query) => (await list(query)).filter(({ id }) => !hidden.has(id)),
  };
};

/** Begins a segment after each read, and reads the last segment first. */
const readsLastSegmentFirst =
  (isOfTexts: boolean): Fault =>
  ({ insert, list, texts }) => {
    const segments = new Map<bigint, number>();
    let segment = 0;
    const segmentOf = ({ id }: Pet) => segments.get(id) ?? 0;
    const pageOf = async (query: PetQuery): Promise<readonly Pet[]> => {
      segment++;
      const all = await list({ ...query, limit: 1000 });
      return [...all].sort((one, other) => segmentOf(other) - segmentOf(one)).slice(0, query.limit);
    };
    return {
      insert: async (draft) => {
        const stored = await insert(draft);
        segments.set(stored.id, segment);
        return stored;
      },
      ...(isOfTexts
        ? {
            texts: {
              ...texts,
              list: async (query) => ({
                ...(await texts.list(query)),
                texts: (await pageOf(query)).map((pet) => petJson(pet.id, pet)),
              }),
            },
          }
        : {
            list: async (query) => {
              checkQuery(query);
              return pageOf(query);
            },
          }),
    };
  };

/** Returns the array of its first response again, to which it adds the pets of later inserts. */
const returnsLiveArrays: Fault = ({ list }) => {
  const arrays = new Map<string, Pet[]>();
  return {
    list: async (query) => {
      const pets = await list(query);
      const known = arrays.get(inspect(query));
      if (known === undefined) {
        const array = [...pets];
        arrays.set(inspect(query), array);
        return array;
      }
      const all = await list({ ...query, limit: 1000 });
      known.push(...all.slice(known.length));
      return known;
    },
  };
};

const unavailable = new PetstoreError('unavailable', 'The storage is busy.');
const pet = { id: 1n, ...anyDraft };
const json = petJson(1n, anyDraft);

export const petFaults: Faults = {
  'insert returns the whole pet, and get and list find it': {
    'is ready only after an insert': ({ insert, ready }) => {
      let isReady = false;
      return {
        insert: (draft) => {
          isReady = true;
          return insert(draft);
        },
        ready: () => (isReady ? (ready?.() ?? setImmediate()) : Promise.reject(unavailable)),
      };
    },
    'keeps the draft of the caller': ({ insert, get }) => {
      const drafts = new Map<bigint, PetDraft>();
      return {
        insert: async (draft) => {
          const stored = await insert(draft);
          drafts.set(stored.id, draft);
          return stored;
        },
        get: async (id) => {
          const found = await get(id);
          return found && { ...found, ...drafts.get(id) };
        },
      };
    },
    'returns from insert before it shows the pet': ({ insert }) => {
      let lastId = 0n;
      return {
        insert: async (draft) => {
          const id = ++lastId;
          setImmediate(() => insert(draft).catch(() => undefined));
          return { id, ...draft };
        },
      };
    },
    'returns only the id': ({ insert }) => ({
      insert: async (draft) => Object({ id: (await insert(draft)).id }),
    }),
    'writes the id into the draft': ({ insert }) => ({
      insert: async (draft) => Object.assign(draft, await insert(draft)),
    }),
    'does not list its only pet': lists((pets, _query, right) => (right.size === 1 ? [] : pets)),
    'has no pets by its size': () => ({ size: 0 }),
  },

  'insert keeps any int64 and any text exactly, and adds no status': {
    ...Object.fromEntries(
      Object.entries(nameChanges).map(([is, change]) => [
        is,
        stores((draft) => ({ ...draft, name: change(draft.name) })),
      ]),
    ),
    'returns a category as a double from insert': ({ insert }) => ({
      insert: async (draft) => rounded(await insert(draft)),
    }),
    'returns a category as a double from get': ({ get }) => ({
      get: async (id) => {
        const found = await get(id);
        return found && rounded(found);
      },
    }),
    'returns a category as a double from list': lists((pets) => pets.map(rounded)),
    ...Object.fromEntries(
      Object.entries(categoryChanges).map(([name, change]) => [
        name,
        stores((draft) => ({ ...draft, categoryId: change(draft.categoryId) })),
      ]),
    ),
    'escapes characters in the texts of get': hasTexts((texts) => ({
      get: async (id) => {
        const text = await texts.get(id);
        return text && edited(text, (json) => json.replace('🐈', '\\ud83d\\udc08'));
      },
    })),
    'gives a pet a status': stores((draft) => ({ status: 'available', ...draft })),
    'returns null as an absent status': ({ get, list }) => {
      const whole = (found: Pet): Pet => Object({ status: null, ...found });
      return {
        get: async (id) => {
          const found = await get(id);
          return found && whole(found);
        },
        list: async (query) => (await list(query)).map(whole),
      };
    },
  },

  'insert assigns the ids 1, 2, 3 … in the order of the calls, also to concurrent calls': {
    'counts ids in eight bits': ({ insert }) => ({
      insert: async (draft) => {
        const stored = await insert(draft);
        return { ...stored, id: BigInt.asUintN(8, stored.id) };
      },
    }),
    'lists at most 250 pets': lists((pets) => pets.slice(0, 250)),
    'counts its commits instead of its pets': (right) => ({
      get size() {
        return Math.min(right.size ?? 0, 1);
      },
    }),
    'begins with the id 0': ({ insert, get, list }) => {
      const shifted = (stored: Pet): Pet => ({ ...stored, id: stored.id - 1n });
      return {
        insert: async (draft) => shifted(await insert(draft)),
        get: async (id) => {
          const found = await get(id + 1n);
          return found && shifted(found);
        },
        list: async (query) => (await list(query)).map(shifted),
      };
    },
    'gives the smallest id to the last of concurrent calls': ({ insert }) => ({
      insert: lastCallFirst(insert),
    }),
  },

  'insert rejects an invalid draft with a TypeError and stores nothing': {
    'accepts no draft': accepts((draft) => draft ?? anyDraft),
    'accepts an empty draft': accepts((draft) =>
      Object.keys(draft).length === 0 ? anyDraft : draft,
    ),
    'accepts any name': accepts((draft) => ({ ...draft, name: String(draft.name) })),
    'accepts half a character': accepts((draft) => ({
      ...draft,
      name: draft.name.toWellFormed(),
    })),
    'accepts a number as a category': accepts((draft) => ({
      ...draft,
      categoryId: BigInt(draft.categoryId),
    })),
    'accepts a category above int64': accepts((draft) => ({
      ...draft,
      categoryId: draft.categoryId > maxInt64 ? maxInt64 : draft.categoryId,
    })),
    'accepts a category below int64': accepts((draft) => ({
      ...draft,
      categoryId: draft.categoryId < minInt64 ? minInt64 : draft.categoryId,
    })),
    'accepts an unknown status': accepts(({ status, ...draft }) =>
      // A draft of another shape stays invalid.
      status && String(status) === 'gone' ? draft : Object({ ...draft, status }),
    ),
    'accepts an empty status': accepts((draft) =>
      String(draft.status) === '' ? { ...draft, status: 'sold' } : draft,
    ),
    'accepts null as a status': accepts((draft) =>
      draft.status === null ? { ...draft, status: 'sold' } : draft,
    ),
    'accepts an invalid draft in `texts`': hasTexts((texts) => ({
      insert: whenInvalid(texts.insert, () => ({ id: 1n, json })),
    })),
    'rejects an invalid draft with another error': ({ insert }) => ({
      insert: whenInvalid(insert, throwOther),
    }),
    'stores an invalid draft before it rejects': ({ insert }) => ({
      insert: whenInvalid(insert, async (draft) => {
        await insert(anyDraft);
        return insert(draft);
      }),
    }),
    'lists an invalid draft that it rejects': ({ insert, list }) => {
      const invalid: Pet[] = [];
      return {
        insert: whenInvalid(insert, (draft) => {
          invalid.push({ id: 0n, ...draft });
          return insert(draft);
        }),
        list: async (query) => [...(await list(query)), ...invalid],
      };
    },
    'gives an id to an invalid draft': ({ insert }) => {
      let taken = 0n;
      const shifted = async (draft: PetDraft) => {
        const stored = await insert(draft);
        return { ...stored, id: stored.id + taken };
      };
      return {
        insert: whenInvalid(shifted, (draft) => {
          taken++;
          return insert(draft);
        }),
      };
    },
  },

  'get returns undefined for an id that no pet has': {
    'counts negative ids from the end': (right) => ({
      get: (id) => right.get(id < 0n ? BigInt(right.size ?? 0) + 1n + id : id),
    }),
    'reads an id of 32 bits': ({ get }) => ({ get: (id) => get(BigInt.asIntN(32, id)) }),
    ...Object.fromEntries(
      [minInt64, -2n, -1n, 0n, 3n, 2n ** 53n, maxInt64].map((unknown) => [
        `has a pet with the id ${unknown}`,
        ({ get }: WholeStorage) => ({ get: (id: bigint) => get(id === unknown ? 1n : id) }),
      ]),
    ),
    'gets the last pet for a larger id': (right) => ({
      get: async (id) => (await right.get(id)) ?? (id > 2n ? right.get(2n) : undefined),
    }),
    'gets null': ({ get }) => ({
      // A storage in JavaScript may return null.
      get: async (id) => (await get(id)) ?? (null as never),
    }),
    'throws for an unknown id': ({ get }) => ({
      get: async (id) => (await get(id)) ?? throwOther(),
    }),
    'counts negative ids from the end in `texts`': hasTexts((texts, right) => ({
      get: (id) => texts.get(id < 0n ? BigInt(right.size ?? 0) + 1n + id : id),
    })),
  },

  'list returns the first pets that match the query, by ascending id': {
    'needs the member `after`': lists((pets, query) => ('after' in query ? pets : [])),
    'reads `after` in 32 bits': queries(({ after = 0n, ...query }) => ({
      ...query,
      after: after === maxInt64 ? after : BigInt.asIntN(32, after),
    })),
    'reads `after` only without a filter': queries(({ after, ...query }) =>
      query.status === undefined ? { ...query, after } : query,
    ),
    'reads an undefined filter as pets without a status': lists((pets, query) =>
      'status' in query && query.status === undefined
        ? pets.filter(({ status }) => status === undefined)
        : pets,
    ),
    'filters within the page': lists(async (_pets, { limit, after, ...filter }, right) => {
      const page = await right.list({ limit, after });
      return page.filter(({ status }) => status === (filter.status ?? status));
    }),
    'misses the last of more than ten pets of a filter': lists((pets, query) =>
      query.status === undefined || pets.length < 10 ? pets : pets.slice(0, -1),
    ),
    'returns the pets of a page in the opposite order': lists((pets, { after }) =>
      after === 20n ? [...pets].reverse() : pets,
    ),
    'has a page of `texts` in the opposite order': hasPages((page, { after }) => ({
      ...page,
      texts: after === 20n ? [...page.texts].reverse() : page.texts,
    })),
    'has texts in `texts` that differ from the pets': hasPages((page, { status }) => ({
      ...page,
      texts: page.texts.map((text) => (status ? text.replace(/"n\d"/, '"n"') : text)),
    })),
    'has no cursor after a filtered page': hasPages(({ texts, next }, { status }) =>
      status === undefined && next !== undefined ? { texts, next } : { texts },
    ),
    'has a cursor on the last page if that is full': hasPages((page, { limit }, right) =>
      page.texts.length === limit && limit > 30 ? { ...page, next: BigInt(right.size ?? 0) } : page,
    ),
    'has the id of the next pet as its cursor': hasPages(({ texts, next }, { limit }) =>
      next !== undefined && limit > 6
        ? { texts, next: next + 1n }
        : next
          ? { texts, next }
          : { texts },
    ),
    ...Object.fromEntries(
      petFields
        .filter(({ isFilterable }) => isFilterable)
        .map(({ name }) => [
          `ignores the filter ${name}`,
          queries((query) => ({ ...query, [name]: undefined })),
        ]),
    ),
    'ignores `after`': queries(({ after, ...query }) => query),
    'ignores the limit': queries((query) => ({ ...query, limit: 1000 })),
    'lists one pet more than the limit': queries((query) => ({
      ...query,
      limit: query.limit + 1,
    })),
    'lists the pet of the cursor again': queries(({ after = 0n, ...query }) => ({
      ...query,
      after: after - 1n,
    })),
    'lists the newest pets first': lists(async (_pets, query, right) =>
      [...(await right.list({ ...query, limit: 1000 }))].reverse().slice(0, query.limit),
    ),
    'sorts ids as texts': lists(async (_pets, query, right) =>
      [...(await right.list({ ...query, limit: 1000 }))]
        .sort((one, other) => (String(one.id) < String(other.id) ? -1 : 1))
        .slice(0, query.limit),
    ),
    'lists pets without a status for any status': lists(
      async (_pets, { limit, after, ...filter }, right) =>
        (await right.list({ limit: 1000, after }))
          .filter(({ status }) => status === undefined || status === (filter.status ?? status))
          .slice(0, limit),
    ),
  },

  'list returns an empty page if no pet matches': {
    'lists all pets for a value that no pet has': lists(async (pets, { limit, after }, right) =>
      pets.length === 0 ? right.list({ limit, after: after && 9n }) : pets,
    ),
    'lists all pets for a value that no pet has, in `texts`': hasTexts((texts) => ({
      list: async (query) => {
        const page = await texts.list(query);
        return page.texts.length === 0 && query.status !== undefined && query.after === undefined
          ? texts.list({ limit: query.limit })
          : page;
      },
    })),
    'returns null instead of an empty list': lists(async (pets, _query, right) =>
      right.size === 0 ? null : pets,
    ),
    'throws if it has no pets': lists((pets, _query, right) =>
      right.size === 0 ? throwOther() : pets,
    ),
    'has a cursor on an empty page': hasPages((page, _query, right) =>
      right.size === 0 ? { ...page, next: 0n } : page,
    ),
    'has no texts on an empty page': hasPages((page, _query, right) =>
      right.size === 0 ? {} : page,
    ),
  },

  'list returns the same full page after further inserts': {
    'reads the last segment first': readsLastSegmentFirst(false),
    'reads the last segment first in `texts`': readsLastSegmentFirst(true),
    'adds later pets to an array that it returned': returnsLiveArrays,
  },

  'list returns a pet only after all pets with smaller ids': {
    'shows pets out of order': showsPetsOutOfOrder,
  },

  'list rejects an invalid query with a TypeError': {
    ...invalidQueryFaults(acceptsQuery),
    'accepts any query in `texts`': hasTexts(({ list }) => ({
      list: whenInvalid(list, () => ({ texts: [] })),
    })),
    'rejects an invalid query with another error': ({ list }) => ({
      list: whenInvalid(list, throwOther),
    }),
  },

  'texts returns pets as JSON in byte strings': {
    'returns text with blanks': returnsText((stored) => ({
      ...stored,
      json: edited(stored.json, (json) => json.replaceAll(',', ', ')),
    })),
    'returns text without the id': returnsText((stored) => ({
      ...stored,
      json: edited(stored.json, (json) => json.replace('"id":1,', '')),
    })),
    'returns no id': returnsText(({ json }) => Object({ json })),
    'has a cursor without a value on the last page': hasPages(({ texts, next }) =>
      texts.length === 0 ? { texts } : { texts, next },
    ),
    'returns texts of characters': hasTexts((texts) => ({
      get: async (id) => {
        const text = await texts.get(id);
        return text && Object(Buffer.from(text, 'latin1').toString()).valueOf();
      },
    })),
    'returns null as the text of an unknown id': hasTexts((texts) => ({
      // A storage in JavaScript may return null.
      get: async (id) => (await texts.get(id)) ?? (null as never),
    })),
    'has the members of a pet in another order': hasTexts((texts) => ({
      get: async (id) => {
        const text = await texts.get(id);
        return (
          text && edited(text, (json) => json.replace(/("name":.*),("categoryId":-?\d+)/, '$2,$1'))
        );
      },
    })),
  },

  'close finishes inserts in flight and rejects later calls, except further calls of close': {
    'inserts after close': ({ insert }) => ({ insert: whenClosed(insert, () => pet) }),
    'gets after close': ({ get }) => ({ get: whenClosed(get, () => pet) }),
    'lists after close': ({ list }) => ({ list: whenClosed(list, () => []) }),
    'is ready after close': ({ ready }) => ({
      ready: whenClosed(
        async () => ready?.(),
        () => undefined,
      ),
    }),
    'inserts texts after close': hasTexts(({ insert }) => ({
      insert: whenClosed(insert, () => ({ id: 1n, json })),
    })),
    'gets texts after close': hasTexts(({ get }) => ({ get: whenClosed(get, () => json) })),
    'lists texts after close': hasTexts(({ list }) => ({
      list: whenClosed(list, () => ({ texts: [] })),
    })),
    'rejects inserts after close with another error': ({ insert }) => ({
      insert: whenClosed(insert, throwOther),
    }),
    'rejects get after close with another error': ({ get }) => ({
      get: whenClosed(get, throwOther),
    }),
    'rejects list after close with another error': ({ list }) => ({
      list: whenClosed(list, throwOther),
    }),
    'is not ready after close for another reason': ({ ready }) => ({
      ready: whenClosed(async () => ready?.(), throwOther),
    }),
    'returns no pets from inserts in flight': ({ insert, close }) => {
      let isClosed = false;
      return {
        insert: async (draft) => {
          const stored = await insert(draft);
          return isClosed ? Object({ id: stored.id }) : stored;
        },
        close: () => {
          isClosed = true;
          return close();
        },
      };
    },
    'drops inserts in flight': ({ insert, close }) => {
      let isClosed = false;
      return {
        insert: async (draft) => {
          const stored = await insert(draft);
          if (isClosed) throw unavailable;
          return stored;
        },
        close: () => {
          isClosed = true;
          return close();
        },
      };
    },
    'cannot be closed while it closes': ({ close }) => {
      let isClosing = false;
      return {
        close: async () => {
          if (isClosing) throw unavailable;
          isClosing = true;
          await setImmediate();
          isClosing = false;
          await close();
        },
      };
    },
    'cannot be closed again': cannotBeClosedAgain,
  },
};
