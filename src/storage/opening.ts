/** Owns the time before a storage is open: whoever calls it then waits. Knows no backend. */
import { PetstoreError } from '../errors.js';
import type { PetStorage } from '../storage.js';
import { textsOf } from './texts.js';

/**
 * A storage that can be used while it still opens. Calls wait for it; where it could not be opened, they reject with
 * `unavailable` (C48), the reason being the `cause`. Only `ready` doesn't wait.
 */
export function whenOpen(opening: Promise<PetStorage>): PetStorage {
  let opened: PetStorage | undefined;
  const storage = opening.then(
    (value) => (opened = value),
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
      return opened?.size ?? 0;
    },
    insert: async (draft) => (await storage).insert(draft),
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
    texts: {
      insert: async (draft) => textsOf(await storage).insert(draft),
      get: async (id) => textsOf(await storage).get(id),
      list: async (query) => textsOf(await storage).list(query),
    },
  };
}
