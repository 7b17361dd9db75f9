/**
 * Owns keeping a data file to one process (F4): by the kernel's lock on the descriptor, which ends with the process
 * however it ends, or where there is none by a lease. Knows not what stands in the file.
 */
import { spawnSync } from 'node:child_process';
import { constants, existsSync } from 'node:fs';
import { messageOf } from '../errors.js';
import { errnoOf } from './disk.js';
import type { LeaseTime } from './lease.js';
import { inUse } from './unusable.js';

/** A hold on a file. */
export interface Lock {
  /** Whether another process may hold the file by now. */
  lost(): boolean;
  /** Gives the file free; a lock of the kernel ends with its descriptor. */
  release(): Promise<void>;
}

/** How a platform locks files. */
export interface Locking {
  /** `O_` flags that the file must be opened with; opening may then fail as `isHeldElsewhere` says. */
  readonly openFlags: number;
  /**
   * Takes the open file for this descriptor alone; another descriptor of this same process is refused too.
   * @throws PetstoreError `storage_in_use`.
   */
  lock(descriptor: number, path: string): Promise<Lock>;
}

/** Not among Node's constants: opening takes the lock of flock(2). The same on macOS and every BSD. */
const O_EXLOCK = 0x20;

const kernelLock: Lock = { lost: () => false, release: async () => undefined };

const lockedByOpening: Locking = {
  openFlags: O_EXLOCK | constants.O_NONBLOCK,
  lock: async () => kernelLock,
};

/** The way of a platform; `flock` is the program that a Linux has it from, `time` what leases are measured by. */
export function lockingOn(platform: NodeJS.Platform, flock = 'flock', time?: LeaseTime): Locking {
  if (platform === 'darwin' || platform === 'freebsd' || platform === 'openbsd') return lockedByOpening;
  return {
    openFlags: 0,
    lock: async (descriptor, path) => {
      const outcome = platform === 'win32' ? 'none' : lockByProgram(flock, descriptor);
      if (outcome === 'none') return leaseBesideKernelLock(descriptor, path, time);
      if (outcome === 'held') throw inUse(path, await (await import('./lock-owner.js')).ownerOf(descriptor));
      if (existsSync(leasePathOf(path))) await (await import('./lease.js')).clearLease(path, time);
      return kernelLock;
    },
  };
}

/** Where a lease of a file stands, for those who must look for it without having any. */
export function leasePathOf(path: string): string {
  return `${path}.lock`;
}

/**
 * Another process may have found the `flock` program that this one does not find. Each makes its own mark first and looks
 * for the other's then, so that no two can miss each other.
 */
async function leaseBesideKernelLock(descriptor: number, path: string, time: LeaseTime | undefined): Promise<Lock> {
  const lease = await (await import('./lease.js')).takeLease(path, time);
  const owner = await (await import('./lock-owner.js')).ownerOf(descriptor);
  if (owner === undefined) return lease;
  await lease.release();
  throw inUse(path, owner);
}

/** Whether opening failed because another process has the file. */
export function isHeldElsewhere(error: unknown): boolean {
  return errnoOf(error) === 'EAGAIN';
}

/**
 * Node has no flock(2). A lock of flock belongs to the open file that parent and child share, not to the process that
 * asked for it, so a child may take it for us and end.
 */
function lockByProgram(flock: string, descriptor: number): 'locked' | 'held' | 'none' {
  const { status, error } = spawnSync(flock, ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', descriptor] });
  if (status !== null) return status === 0 ? 'locked' : status === 1 ? 'held' : 'none';
  if (errnoOf(error) === 'ENOENT') return 'none';
  // Of a machine that is short of something for a moment: a lease instead would not see who holds the kernel's lock.
  throw new Error(`${flock} could not be run: ${error === undefined ? 'it was killed' : messageOf(error)}`);
}
