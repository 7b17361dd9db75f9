/** Resolves the path of a storage file. */
import { resolve } from 'node:path';
import { PetstoreError } from '../errors.js';

/**
 * Returns the absolute path of a storage file.
 * @throws PetstoreError `storage_unusable` (F7) if a slash ends the path, because without the slash
 * it would name another file
 */
export function storagePath(path: string): string {
  if (!path.endsWith('/')) return resolve(path);
  throw new PetstoreError(
    'storage_unusable',
    `${path} cannot be used: it is a folder; name a file, without a slash at its end`,
  );
}
