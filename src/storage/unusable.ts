/** Owns turning what a system call threw at opening into one line with its mend (F7). */
import { messageOf, PetstoreError } from '../errors.js';
import { errnoOf } from './disk.js';

const mends = new Map([
  ['EACCES', 'give this user the right to read and write the file and its folder'],
  ['EPERM', 'give this user the right to read and write the file and its folder'],
  ['EROFS', 'the disk is read-only: name a file on another, or mount it for writing'],
  ['ENOENT', 'there is no such file or folder: name one that exists'],
  ['EISDIR', 'it is a folder: name a file'],
  ['ENOTDIR', 'a part of its path is a file, not a folder: name another'],
  ['EEXIST', 'something is there already: name another'],
  ['ENOSPC', 'the disk is full: free some space'],
  ['EDQUOT', 'the quota is used up: free some space'],
  ['EFBIG', 'the limit of file sizes is reached: raise it'],
  ['EMFILE', 'too many files are open: raise the limit'],
  ['ENFILE', 'too many files are open: raise the limit'],
]);

/** A `storage_unusable` for whatever was thrown; a PetstoreError stays what it is. */
export function unusable(path: string, thrown: unknown): PetstoreError {
  if (thrown instanceof PetstoreError) return thrown;
  const mend = mends.get(errnoOf(thrown) ?? '') ?? 'see to the disk, or name another file';
  return new PetstoreError('storage_unusable', `${path} cannot be used: ${mend} (${messageOf(thrown)})`, { cause: thrown });
}
