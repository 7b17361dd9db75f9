/** Owns telling what a storage file holds and whether a start would succeed. Only reads, and takes no lock. */
import { constants } from 'node:fs';
import type { PetStatus } from '../pet.js';
import { nodeDisk } from './disk.js';
import { petLines } from './pet-lines.js';
import { replay, type ReplayProblem } from './replay.js';
import { unusable } from './unusable.js';

/** What a storage file holds. */
export interface FileReport {
  /** `sound` and `torn` start; a start sets a torn tail aside. `damaged` does not (F3). */
  readonly verdict: 'sound' | 'torn' | 'damaged';
  /** Where and why it is not sound. */
  readonly problem?: ReplayProblem;
  /** The animals before the problem, all of them where there is none; by status too, `none` for those without. */
  readonly animals: number;
  readonly byStatus: Readonly<Record<PetStatus | 'none', number>>;
  /** How many of them have an idempotency record, expired ones included. */
  readonly idempotencyKeys: number;
  readonly commits: number;
  /** The size of the file. */
  readonly bytes: number;
  /** How many bytes, from the beginning, have a sound commit behind them; those commits included. */
  readonly committedBytes: number;
  /** How many bytes a start would set aside. */
  readonly tornBytes: number;
}

/**
 * Reads a storage file to its end, or to what is wrong. A server may be at work on it: its last write may then look torn.
 * @throws PetstoreError `storage_unusable` where the file cannot be read.
 */
export async function checkFile(path: string): Promise<FileReport> {
  let descriptor: number | undefined;
  // Without O_NONBLOCK a pipe of this name would be waited for.
  try {
    descriptor = await nodeDisk.open(path, constants.O_RDONLY | constants.O_NONBLOCK, 0);
    return await report(descriptor);
  } catch (error) {
    throw unusable(path, error);
  } finally {
    if (descriptor !== undefined) await nodeDisk.close(descriptor);
  }
}

async function report(descriptor: number): Promise<FileReport> {
  const byStatus = { available: 0, pending: 0, sold: 0, none: 0 };
  let idempotencyKeys = 0;
  const count = petLines((_id, status, once) => {
    byStatus[status ?? 'none']++;
    if (once !== undefined) idempotencyKeys++;
  });
  const { problem, commits, size, committedEnd, end } = await replay(nodeDisk, descriptor, count);
  return {
    verdict: problem?.kind ?? 'sound',
    ...(problem && { problem }),
    animals: byStatus.available + byStatus.pending + byStatus.sold + byStatus.none,
    byStatus,
    idempotencyKeys,
    commits,
    bytes: size,
    committedBytes: committedEnd,
    tornBytes: problem?.kind === 'torn' ? size - end : 0,
  };
}
