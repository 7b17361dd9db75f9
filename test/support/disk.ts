/** Disks that fail: this machine's with some functions replaced, with the errors of node:fs. */
import { constants } from 'node:os';
import { appendInSteps, nodeDisk, type Disk } from '../../dist/journal/index.js';

/** The error codes with which a disk can fail. */
export const errnos = ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE'] as const;

/** Returns a system error as node:fs does. libuv has no name for EDQUOT. */
export function systemError(name: string): Error {
  const errno = -(
    Object.entries(constants.errno).find(([known]) => known === name)?.[1] ?? Number.NaN
  );
  const code = name === 'EDQUOT' ? `Unknown system error ${errno}` : name;
  return Object.assign(new Error(`${name}: injected`), { code, errno });
}

let now = 0;
/** A clock that never repeats a time, because the names of torn tails contain the time. */
export const clock = (): number => ++now;

/**
 * This machine's disk without the lock, for tests of many files. On Linux each lock starts a
 * process.
 */
export const unlocked: Disk = { ...nodeDisk, lockFlags: 0, lock: async () => undefined };

/** A disk whose functions a test can replace. */
type ChangeableDisk = { -readonly [Name in keyof Disk]: Disk[Name] };

/**
 * Returns this machine's disk with some functions replaced. It appends by `write` and `datasync` in
 * place of the one call of Linux, so that a test can fail either.
 */
export function diskWith(changes: Partial<Disk>): ChangeableDisk {
  const disk: ChangeableDisk = { ...nodeDisk, ...changes };
  disk.append = (descriptor, bytes) => appendInSteps(disk)(descriptor, bytes);
  return disk;
}
