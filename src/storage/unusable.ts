/** Owns saying in one line why a file cannot be had, and the mend: another process has it (F4), or a system call threw (F7). */
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

/** The refusal of a file that the process of this pid has (F4); undefined is one that cannot be told. */
export function inUse(path: string, owner: number | undefined): PetstoreError {
  const who = owner === undefined ? 'another process' : `process ${owner}`;
  return new PetstoreError('storage_in_use', `${path} is in use by ${who}: stop that one first, or name another file`);
}
