/** Owns the time before a storage is open: whoever calls it then waits. Knows no backend. */
import { PetstoreError } from '../errors.js';
import type { PetStorage, PetTexts } from '../storage.js';
import { textsOf } from './texts.js';

/**
 * A storage that can be used while it still opens. Calls wait for it; where it could not be opened, they reject with
 * `unavailable` (C48), the reason being the `cause`. Only `ready` doesn't wait.
 */
export function whenOpen(opening: Promise<PetStorage>): PetStorage {
  let opened: PetStorage | undefined;
  let texts: PetTexts | undefined;
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
      return opened?.size ?? 0;
    },
    get waiting() {
      return opened?.waiting ?? 0;
    },
    onCommit: (watcher) => void storage.then((value) => value.onCommit?.(watcher)).catch(() => undefined),
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
      insert: (draft) => (texts === undefined ? storage.then((value) => textsOf(value).insert(draft)) : texts.insert(draft)),
      get: (id) => (texts === undefined ? storage.then((value) => textsOf(value).get(id)) : texts.get(id)),
      list: (query) => (texts === undefined ? storage.then((value) => textsOf(value).list(query)) : texts.list(query)),
    },
  };
}
