/** Faults that `testRecords` must find. */
import { isUtf8 } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import {
  PetstoreError,
  toByteString,
  type ByteString,
  type PageQuery,
  type RecordKind,
  type Records,
  type StoredText,
  type TextPage,
} from '../../../dist/index.js';
import { asByteString } from '../../../dist/json.js';
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

/** The name of records that are opened. */
interface NameUse {
  readonly name: string;
  /** True if records of this name are open already. */
  readonly isInUse: boolean;
}

/** Returns the members that replace those of the records of a plugin. */
type Change = <Draft>(records: Records<Draft>, kind: RecordKind<Draft>) => Partial<Records<Draft>>;

const unavailable = new PetstoreError('unavailable', 'The storage is closed.');
/** A text that a storage returns for an invalid record. */
const anyText = asByteString('{"id":1,"text":"any"}');

const isValid = ({ name, isInUse }: NameUse) => /^[a-z]{1,40}$/.test(name) && !isInUse;
const isInvalid = ({ name }: NameUse) => !isValid({ name, isInUse: false }) || name === 'lock';

/** Returns a fault of the records that are affected. The default is all. */
const hasRecords =
  (change: Change, isAffected: (use: NameUse) => boolean = () => true): Fault =>
  (right) => {
    const names = new Set<string>();
    return {
      records: (name, kind) => {
        const records = right.records(name, kind);
        const isInUse = names.has(name);
        names.add(name);
        return isAffected({ name, isInUse }) ? { ...records, ...change(records, kind) } : records;
      },
    };
  };

/** Returns a fault of `insert`. */
const returnsStored = (change: (stored: StoredText) => StoredText): Fault =>
  hasRecords(({ insert }) => ({ insert: async (draft) => change(await insert(draft)) }));

/** Returns a fault of `list`. */
const returnsPages = (change: (page: TextPage, query: PageQuery) => unknown): Fault =>
  hasRecords(({ list }) => ({
    // A storage in JavaScript may return anything.
    list: async (query) => change(await list(query), query) as TextPage,
  }));

/** Returns a fault of the names of records. */
const opensAs =
  (change: (name: string) => string): Fault =>
  ({ records }) => ({ records: (name, kind) => records(change(name), kind) });

/** Returns a fault of `opened`, which rejects with another error. */
const rejectsWithOther = (isAffected: (use: NameUse) => boolean): Fault =>
  hasRecords(({ opened }) => {
    const changed = opened.catch(throwOther);
    changed.catch(() => undefined);
    return { opened: changed };
  }, isAffected);

/** Returns a fault of the texts of records, which makes an invalid text valid. */
const acceptsText =
  (change: (text: string, id: bigint) => string): Fault =>
  ({ records }) => ({
    records: (name, kind) =>
      records(name, {
        ...kind,
        json: (id, draft) => asByteString(change(kind.json(id, draft), id)),
      }),
  });

/** Returns faults of records that cannot be used: one method resolves, or has another error. */
const usesOf = (
  when: string,
  isAffected: (use: NameUse) => boolean,
): Readonly<Record<string, Fault>> => ({
  [`inserts ${when}`]: hasRecords(
    ({ insert }) => ({ insert: whenClosed(insert, () => ({ id: 1n, json: anyText })) }),
    isAffected,
  ),
  [`gets ${when}`]: hasRecords(
    ({ get }) => ({ get: whenClosed(get, () => undefined) }),
    isAffected,
  ),
  [`lists ${when}`]: hasRecords(
    ({ list }) => ({ list: whenClosed(list, () => ({ texts: [] })) }),
    isAffected,
  ),
  [`rejects to insert ${when} with another error`]: hasRecords(
    ({ insert }) => ({ insert: whenClosed(insert, throwOther) }),
    isAffected,
  ),
  [`rejects to get ${when} with another error`]: hasRecords(
    ({ get }) => ({ get: whenClosed(get, throwOther) }),
    isAffected,
  ),
  [`rejects to list ${when} with another error`]: hasRecords(
    ({ list }) => ({ list: whenClosed(list, throwOther) }),
    isAffected,
  ),
});

/** Returns a fault of the pets of a storage, which depends on the number of its records. */
const countsRecords =
  (change: (right: WholeStorage, count: () => number) => ReturnType<Fault>): Fault =>
  (right) => {
    let count = 0;
    const { records } = hasRecords(({ insert }) => ({
      insert: async (draft) => {
        const stored = await insert(draft);
        count++;
        return stored;
      },
    }))(right);
    return Object.defineProperties(
      change(right, () => count),
      Object.getOwnPropertyDescriptors({ records }),
    );
  };

/**
 * Returns a fault of inserts that take a few ticks. If `close` is called before, they end by `end`.
 */
const endsInFlight =
  (end: (stored: StoredText) => StoredText): Fault =>
  (right) => {
    let isClosed = false;
    const slow = hasRecords(({ insert }) => ({
      insert: async (draft) => {
        const stored = await insert(draft);
        for (let ticks = 0; ticks < 3; ticks++) await setImmediate();
        return isClosed ? end(stored) : stored;
      },
    }));
    return {
      ...slow(right),
      close: () => {
        isClosed = true;
        return right.close();
      },
    };
  };

/** Reads the last opened records instead of those of each name. */
const readsLastRecords =
  (member: 'get' | 'list'): Fault =>
  (right) => {
    let last: Pick<Records<never>, 'get' | 'list'> | undefined;
    return hasRecords((records) => {
      last = records;
      const { get, list } = records;
      return member === 'get'
        ? { get: (id) => (last?.get ?? get)(id) }
        : { list: (query) => (last?.list ?? list)(query) };
    })(right);
  };

/** Opens the same records for all names that `nameOf` maps to one. */
const sharesRecords =
  (nameOf: (name: string) => string): Fault =>
  ({ records }) => {
    const open = new Map<string, unknown>();
    return {
      records: (name, kind) => {
        const known = open.get(nameOf(name));
        // All records of a test have the same kind.
        if (known !== undefined) return Object(known);
        const own = records(name, kind);
        open.set(nameOf(name), own);
        return own;
      },
    };
  };

export const recordFaults: Faults = {
  'records.insert assigns the ids 1, 2, 3 …, also to calls before the records are open': {
    'counts ids of records in eight bits': returnsStored(({ id, json }) => ({
      id: BigInt.asUintN(8, id),
      json,
    })),
    'returns texts of characters': returnsStored(({ id, json }) => ({
      id,
      json: asByteString(Buffer.from(json, 'latin1').toString()),
    })),
    'has at most 255 records to get': hasRecords(({ get }) => ({
      get: async (id) => (id > 255n ? undefined : get(id)),
    })),
    'lists at most 250 records': returnsPages(({ texts }) => ({ texts: texts.slice(0, 250) })),
    'gives the smallest id to the last of concurrent calls': hasRecords(({ insert }) => ({
      insert: lastCallFirst(insert),
    })),
    'rejects `opened` of records that are open': hasRecords(() => {
      const opened = Promise.reject(unavailable);
      opened.catch(() => undefined);
      return { opened };
    }, isValid),
  },

  'records.get returns undefined for an id that no record has': {
    ...Object.fromEntries(
      [-(2n ** 63n), -2n, -1n, 0n, 3n, 2n ** 63n - 1n].map((unknown) => [
        `has a record with the id ${unknown}`,
        hasRecords(({ get }) => ({ get: (id) => get(id === unknown ? 1n : id) })),
      ]),
    ),
    'reads an id of a record in 32 bits': hasRecords(({ get }) => ({
      get: (id) => get(BigInt.asIntN(32, id)),
    })),
    'returns null for an unknown id': hasRecords(({ get }) => ({
      // A storage in JavaScript may return null.
      get: async (id) => (await get(id)) ?? (null as never),
    })),
    'throws for an unknown id': hasRecords(({ get }) => ({
      get: async (id) => (await get(id)) ?? throwOther(),
    })),
  },

  'records.list returns records by ascending id, and the cursor of the next page': {
    'has no cursor': returnsPages(({ texts }) => ({ texts })),
    'has a cursor on a full last page': returnsPages(({ texts, next }, { limit, after = 0n }) => ({
      texts,
      ...(texts.length === limit && { next: next ?? after + BigInt(limit) }),
    })),
    'has a cursor on the last page after a cursor': returnsPages((page, { after }) =>
      after === 2n ? { ...page, next: 3n } : page,
    ),
    'has a cursor on an empty page': returnsPages((page, { after }) =>
      page.texts.length === 0 ? { ...page, next: after } : page,
    ),
    'throws after the last record': returnsPages((page) =>
      page.texts.length === 0 ? throwOther() : page,
    ),
    'ignores `after`': hasRecords(({ list }) => ({
      list: async (query) => (await list(query), list({ limit: query.limit })),
    })),
    'ignores the limit': hasRecords(({ list }) => ({
      list: async (query) => (await list(query), list({ ...query, limit: 1000 })),
    })),
    'lists the newest records first': returnsPages((page) => ({
      ...page,
      texts: [...page.texts].reverse(),
    })),
  },

  'records.list rejects an invalid query with a TypeError': {
    ...invalidQueryFaults((change) =>
      hasRecords(({ list }) => ({ list: whenInvalid(list, (query) => list(change(query))) })),
    ),
    'rejects an invalid query with another error': hasRecords(({ list }) => ({
      list: whenInvalid(list, throwOther),
    })),
    'lists no records after an invalid query': hasRecords(({ list }) => {
      let isBroken = false;
      return {
        list: whenInvalid(
          async (query) => (isBroken && query?.limit === 9 ? { texts: [] } : list(query)),
          (query) => {
            isBroken = true;
            return list(query);
          },
        ),
      };
    }),
  },

  'records of one name are separate from other names and from pets': {
    'reads four letters of a name': sharesRecords((name) => name.slice(0, 4)),
    'has names of at most 32 letters': opensAs((name) => (name.length > 32 ? '' : name)),
    'keeps the records of the name pets among the pets': (right) =>
      hasRecords(
        ({ insert }) => ({
          insert: async (draft) => {
            await right.insert(anyDraft);
            return insert(draft);
          },
        }),
        ({ name }) => name === 'pets',
      )(right),
    'counts the ids of all records together': (right) => {
      let lastId = 0n;
      return returnsStored(({ json }) => ({ id: ++lastId, json }))(right);
    },
    'gets the records of the last name': readsLastRecords('get'),
    'lists the records of the last name': readsLastRecords('list'),
    'counts the ids of pets and records together': countsRecords(({ insert }, count) => ({
      insert: async (draft) => {
        const stored = await insert(draft);
        return { ...stored, id: stored.id + BigInt(count()) };
      },
    })),
    'lists a pet for each record': countsRecords(({ list }, count) => ({
      list: async (query) => [
        ...(await list(query)),
        ...Array.from({ length: count() }, () => ({ id: 0n, ...anyDraft })),
      ],
    })),
    'counts records as pets in its size': countsRecords((right, count) => ({
      get size() {
        return (right.size ?? 0) + count();
      },
    })),
  },

  'records rejects a name that is in use': {
    'opens the records of a name again': sharesRecords((name) => name),
    'rejects a name in use with another error': rejectsWithOther(({ isInUse }) => isInUse),
    ...usesOf('records whose name is in use', ({ isInUse }) => isInUse),
    'counts ids anew after a name was used again': (right) => {
      let isAgain = false;
      const { records } = returnsStored(({ id, json }) => ({ id: isAgain ? 1n : id, json }))(right);
      return {
        ...(records && {
          records: (name, kind) => {
            const own = records(name, kind);
            own.opened.catch(() => (isAgain = true));
            return own;
          },
        }),
      };
    },
  },

  'records rejects a name that is not safe as a file extension': {
    ...Object.fromEntries(
      ['', 'lock', 'Notes', 'a.b', 'a/b', '..', 'torn-1', 'x'.repeat(41)].map((bad) => [
        `accepts the name "${bad}"`,
        opensAs((name) => (name === bad ? 'notes' : name)),
      ]),
    ),
    'rejects an invalid name with another error': rejectsWithOther(isInvalid),
    'leaves the rejection of an invalid name unhandled': hasRecords(
      ({ opened }) => ({ opened: opened.then(() => undefined) }),
      isInvalid,
    ),
    ...usesOf('records of an invalid name', isInvalid),
  },

  'records.insert rejects text that is not one line of JSON with the id, and stores nothing': {
    'accepts an empty text': acceptsText((text, id) => text || `{"id":${id},"a":1}`),
    'accepts a record of an id alone': acceptsText((text, id) =>
      text === `{"id":${id}}` ? `{"id":${id},"a":1}` : text,
    ),
    'accepts a blank before a record': acceptsText((text) => text.replace(/^ /, '')),
    'accepts an id after other members': acceptsText((text, id) =>
      text.startsWith('{"a":1,"id":') ? `{"id":${id},"a":1}` : text,
    ),
    'accepts a line break in a record': acceptsText((text) =>
      text.replace('{\n', '{').replace(':\n', ':'),
    ),
    'accepts a tab in a record': acceptsText((text) => text.replace(':\t', ':')),
    'accepts characters that are not bytes': acceptsText((text) =>
      text.includes('猫') ? toByteString(text) : text,
    ),
    'accepts bytes that are not UTF-8': acceptsText((text) =>
      text.length < 100 && !text.includes('猫') && !isUtf8(Buffer.from(text, 'latin1'))
        ? toByteString(text)
        : text,
    ),
    'accepts the id of another record': acceptsText((text, id) =>
      text.replace('{"id":7,"a":1}', `{"id":${id},"a":1}`),
    ),
    'accepts a commit record': acceptsText((text, id) =>
      text.startsWith('{"commit":') ? `{"id":${id},"a":1}` : text,
    ),
    'rejects an invalid text with another error': hasRecords(({ insert }) => ({
      insert: whenInvalid(insert, throwOther),
    })),
    'gives an id to an invalid text': hasRecords(({ insert }) => {
      let taken = 0n;
      return {
        insert: whenInvalid(
          async (draft) => {
            const { id, json } = await insert(draft);
            const given = id + taken;
            return {
              id: given,
              json: asByteString(json.replace(`{"id":${id},`, `{"id":${given},`)),
            };
          },
          (draft) => {
            taken++;
            return insert(draft);
          },
        ),
      };
    }),
    'lists an invalid text': hasRecords(({ insert, list }) => {
      const invalid: ByteString[] = [];
      return {
        insert: whenInvalid(insert, (draft) => {
          invalid.push(anyText);
          return insert(draft);
        }),
        list: async (query) => {
          const page = await list(query);
          return { ...page, texts: [...page.texts, ...invalid] };
        },
      };
    }),
  },

  'records.insert accepts a record with more values than a request body may have': {
    'has room for 100,000 characters': hasRecords(({ insert }, { json }) => ({
      insert: async (draft) => {
        const { length } = json(1n, draft);
        // Longer records are invalid in any case.
        if (length > 100_000 && length < 1_000_000) throw new TypeError('the record is too long');
        return insert(draft);
      },
    })),
    'cuts a record after 100,000 characters': returnsStored(({ id, json }) => ({
      id,
      json: asByteString(json.slice(0, 100_000)),
    })),
  },

  'records.insert stores a draft as it was at the call': {
    'makes the text of a record a tick later': hasRecords(({ insert }) => ({
      insert: async (draft) => {
        await undefined;
        return insert(draft);
      },
    })),
    'makes the text that insert returns after it has stored': hasRecords(
      ({ insert }, { json }) => ({
        insert: async (draft) => {
          const { id } = await insert(draft);
          return { id, json: json(id, draft) };
        },
      }),
    ),
    'makes the text of a record for each list': hasRecords(({ insert, list }, { json }) => {
      const drafts: Parameters<typeof insert>[0][] = [];
      return {
        insert: async (draft) => {
          const stored = insert(draft);
          const { id } = await stored;
          drafts[Number(id) - 1] = draft;
          return stored;
        },
        list: async (query) => {
          const page = await list(query);
          const from = Number(query.after ?? 0n);
          return {
            ...page,
            texts: drafts
              .slice(from, from + page.texts.length)
              .map((draft, at) => json(BigInt(from + at + 1), draft)),
          };
        },
      };
    }),
  },

  'records.insert rejects only the invalid ones of concurrent records': {
    'accepts a record of any length': acceptsText((text, id) =>
      text.length > 2 ** 20 ? `{"id":${id},"text":"long"}` : text,
    ),
    'rejects all records of a batch with an invalid one': hasRecords(({ insert }) => {
      let isInvalid = false;
      return {
        insert: async (draft) => {
          const stored = await insert(draft).catch((error: unknown) => {
            isInvalid = true;
            throw error;
          });
          await setImmediate();
          if (isInvalid) throw new TypeError('a record of the batch is invalid');
          return stored;
        },
      };
    }),
  },

  'close finishes inserts of records in flight and rejects later calls': {
    'drops inserts of records in flight': endsInFlight(() => {
      throw unavailable;
    }),
    'returns no ids of inserts in flight': endsInFlight(({ json }) => Object({ json })),
    ...usesOf('records after close', isValid),
    'opens records after close': hasRecords(
      ({ opened }) => ({
        opened: whenClosed(
          () => opened,
          () => undefined,
        )(),
      }),
      isValid,
    ),
    'rejects to open records after close with another error': rejectsWithOther(isValid),
    'cannot be closed again': cannotBeClosedAgain,
  },
};
