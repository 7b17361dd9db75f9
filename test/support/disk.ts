/**
 * A disk that fails: this machine's with some calls replaced, and the errors as node:fs rejects
 * with them.
 */
import { constants } from 'node:os';
import { appendInSteps, nodeDisk, type Disk } from '../../dist/journal/index.js';

/** What a call of a disk may fail with. */
export const errnos = ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EMFILE'] as const;

/** A system error by its errno's name, which libuv does not know of EDQUOT. */
export function systemError(name: string): Error {
  const errno = -(
    Object.entries(constants.errno).find(([known]) => known === name)?.[1] ?? Number.NaN
  );
  const code = name === 'EDQUOT' ? `Unknown system error ${errno}` : name;
  return Object.assign(new Error(`${name}: injected`), { code, errno });
}

let now = 0;
/** For starts within a millisecond: no two torn tails may have one name. */
export const clock = (): number => ++now;

/**
 * This machine's disk without the lock, which on Linux costs a process: for many files that nobody
 * else knows.
 */
export const unlocked: Disk = { ...nodeDisk, lockFlags: 0, lock: async () => undefined };

/** A disk of a test's own, of which more is replaced as the test goes on. */
type ChangeableDisk = { -readonly [Name in keyof Disk]: Disk[Name] };

/**
 * This machine's disk with some functions replaced, now or later. It appends by `write` and then
 * `datasync`: to the journal that is what one call of Linux is, which fails by its write or by its
 * sync and does not say by which.
 */
export function diskWith(changes: Partial<Disk>): ChangeableDisk {
  const disk: ChangeableDisk = { ...nodeDisk, ...changes };
  disk.append = (descriptor, bytes) => appendInSteps(disk)(descriptor, bytes);
  return disk;
}
