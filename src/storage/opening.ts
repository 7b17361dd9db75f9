/** Owns the time before a storage is open: whoever calls it then waits. Knows no backend. */
import { PetstoreError } from '../errors.js';
import { parsePet } from '../pet.js';
import type { PetStorage, PetTexts, RecordKind, Records, Texts } from '../storage.js';
import { textsOf } from './texts.js';

/**
 * A storage that can be used while it still opens. Calls wait for it; where it could not be opened, they reject with
 * `unavailable` (C48), the reason being the `cause`. Only `ready` doesn't wait.
 */
export function whenOpen(opening: Promise<PetStorage>): PetStorage {
  let opened: PetStorage | undefined;
  let texts: Required<PetTexts> | undefined;
  const storage = opening.then(
    (value) => {
      opened = value;
      texts = textsOf(value);
      return value;
    },
    (cause: unknown) => {
      throw new PetstoreError('unavailable', 'The storage is not open.', { cause });
    },
  );
  // Whoever calls hears of a failure; until somebody does, it is nobody's unhandled rejection.
  storage.catch(() => undefined);
  return {
    get durable() {
      return opened?.durable ?? false;
    },
    get size() {
      return opened === undefined ? 0 : opened.size;
    },
    get waiting() {
      return opened === undefined ? 0 : opened.waiting;
    },
    onCommit: (watcher) => void storage.then((value) => value.onCommit?.(watcher)).catch(() => undefined),
    insert: async (draft) => (await storage).insert(draft),
    insertOnce: async (draft, once) => parsePet((await textsOf(await storage).insertOnce(draft, once)).json),
    get: async (id) => (await storage).get(id),
    list: async (query) => (await storage).list(query),
    ready: async () => {
      if (opened === undefined) throw new PetstoreError('unavailable', 'The storage is not open.');
      await opened.ready?.();
    },
    close: () =>
      storage.then(
        (value) => value.close(),
        () => undefined,
      ),
    records: (name, kind) => recordsWhenOpen(opening.then((value) => recordsOf(value, name, kind))),
    texts: {
      insert: (draft) => (texts === undefined ? storage.then((value) => textsOf(value).insert(draft)) : texts.insert(draft)),
      insertOnce: (draft, once) => (texts === undefined ? storage.then((value) => textsOf(value).insertOnce(draft, once)) : texts.insertOnce(draft, once)),
      get: (id) => (texts === undefined ? storage.then((value) => textsOf(value).get(id)) : texts.get(id)),
      list: (query) => (texts === undefined ? storage.then((value) => textsOf(value).list(query)) : texts.list(query)),
    },
  };
}

/** Records that can be used while they still open, in the same way. */
export function recordsWhenOpen<Draft>(opening: Promise<Texts<Draft>>): Records<Draft> {
  const texts = opening.catch((cause: unknown) => {
    throw new PetstoreError('unavailable', 'The storage is not open.', { cause });
  });
  texts.catch(() => undefined);
  const opened = opening.then(() => undefined);
  opened.catch(() => undefined);
  return {
    opened,
    insert: async (draft) => (await texts).insert(draft),
    get: async (id) => (await texts).get(id),
    list: async (query) => (await texts).list(query),
  };
}

async function recordsOf<Draft>(storage: PetStorage, name: string, kind: RecordKind<Draft>): Promise<Texts<Draft>> {
  const records = storage.records?.(name, kind);
  if (records === undefined) throw new PetstoreError('storage_unusable', 'This storage keeps nothing but animals.');
  await records.opened;
  return records;
}
