/** Owns a database as a copy reads it: with time for long pages, and with the reason of whatever reading fails by. */
import type { PetStorage, RecordKind, Records } from '../../storage.js';
import { unusableDatabase } from './failure.js';
import { copyingLimits } from './pool.js';
import { openPostgres, type PostgresStorageOptions } from './storage.js';

/**
 * Opens a database with the petstore's tables to be copied from, or to be compared with a copy; see `copyPets`. Its lists
 * may take long, and reject with `storage_unusable`.
 * @throws PetstoreError as `postgresStorage`.
 */
export async function postgresSource(url: string, options: PostgresStorageOptions = {}): Promise<PetStorage> {
  const storage = await openPostgres(url, options, copyingLimits);
  const { durable, insert, insertOnce, get, texts } = storage;
  return {
    durable,
    insert,
    insertOnce,
    get,
    list: (query) => explained(storage.list(query)),
    texts: { ...texts, list: (query) => explained(texts.list(query)) },
    records: <Draft>(name: string, kind: RecordKind<Draft>): Records<Draft> => {
      const records = storage.records(name, kind);
      return {
        insert: (draft) => records.insert(draft),
        get: (id) => records.get(id),
        list: (query) => explained(records.list(query)),
        opened: records.opened,
      };
    },
    ready: () => storage.ready(),
    close: () => storage.close(),
  };
}

async function explained<Value>(read: Value | Promise<Value>): Promise<Value> {
  try {
    return await read;
  } catch (error) {
    throw unusableDatabase(error);
  }
}
