/** Opens files only to read them, without a lock. */
import { constants } from 'node:fs';
import { nodeDisk, unusableError, withFile } from '../journal/index.js';

/**
 * Opens a file for the time of `use`.
 * @throws PetstoreError `storage_unusable` if the file cannot be opened or read
 */
export async function withReadOnlyFile<Result>(
  path: string,
  use: (descriptor: number) => Promise<Result>,
): Promise<Result> {
  try {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    return await withFile(nodeDisk, path, constants.O_RDONLY | constants.O_NONBLOCK, use);
  } catch (error) {
    throw unusableError(path, error);
  }
}
