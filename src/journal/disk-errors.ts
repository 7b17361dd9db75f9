/** Turns errors of the disk into `PetstoreError`s with a hint. */
import { constants as osConstants } from 'node:os';
import { codeOf, denialOf, PetstoreError, reasonOf } from '../errors.js';

/** Returns the name of an error's errno, such as `ENOENT`, or '' if it has none. */
export function errnoOf(error: unknown): string {
  // libuv does not know EDQUOT, so that Node's `code` for it is a sentence.
  const isQuota =
    error instanceof Error && 'errno' in error && error.errno === -osConstants.errno.EDQUOT;
  return isQuota ? 'EDQUOT' : (codeOf(error) ?? '');
}

/** Returns a handler for `catch` that resolves to undefined for this errno and rethrows others. */
export function ignore(errno: string) {
  return (error: unknown): undefined => {
    if (errnoOf(error) !== errno) throw error;
  };
}

/** The reasons why a file cannot be used, each with its fix, by errno. */
const reasons: Readonly<Record<string, string>> = {
  EACCES: 'permission denied; let this user read and write the file and its folder',
  EROFS: 'the disk is read-only; name a file on another disk, or mount it for writing',
  ENOENT: 'there is no such file or folder; name one that exists',
  EISDIR: 'it is a folder; name a file',
  ENOTDIR: 'a part of its path is a file, not a folder; name another path',
  EEXIST: 'it exists already; name a new file',
  ENAMETOOLONG: 'its name is too long for this disk; name a file with a shorter name',
  EFTYPE: 'it is not a regular file; name a regular file',
  ELOOP: 'it is a broken or circular link; name a file',
};

/** Converts any error to a `storage_unusable` (F7). Returns a PetstoreError unchanged. */
export function unusableError(path: string, thrown: unknown): PetstoreError {
  if (thrown instanceof PetstoreError) return thrown;

  const reason =
    denialOf(thrown) ??
    reasons[errnoOf(thrown)] ??
    `${reasonOf(thrown)}; check the disk and its free space, or name another file`;
  return new PetstoreError('storage_unusable', `${path} cannot be used: ${reason}`, {
    cause: thrown,
  });
}

/** Returns the error for a file that another process has locked. */
export function inUseError(path: string, owner = 'another process'): PetstoreError {
  return new PetstoreError(
    'storage_in_use',
    `${path} is in use by ${owner}: stop that process first, or name another file`,
  );
}
