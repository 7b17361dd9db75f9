/** Owns taking turns at a file: whoever could make FILE.lock may replace FILE. Knows not what is in it. */
import { closeSync, openSync, rmSync, statSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { makeFolderOf } from './atomic-file.js';
import { Refusal } from './refusal.js';

const retryMs = 20;
/** Work under the lock takes milliseconds; a lock of this age was left behind by a crash. */
const staleMs = 10_000;
/** Long enough to see a lock grow stale. */
const patienceMs = 15_000;

/**
 * Does the work while no other process that asks here does its own; makes the file's folder where it is missing.
 * @throws Refusal where the turn never comes; what the work and the system throw.
 */
export async function withLock<Result>(path: string, work: () => Result): Promise<Result> {
  const lock = `${path}.lock`;
  makeFolderOf(path);
  const giveUpAt = Date.now() + patienceMs;
  while (!takes(lock)) {
    if (Date.now() > giveUpAt) throw new Refusal(`${lock} is held by another process; try again, or delete it if there is none`);
    await wait(retryMs);
  }
  try {
    return work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function takes(lock: string): boolean {
  try {
    closeSync(openSync(lock, 'wx', 0o600));
    return true;
  } catch (error) {
    // Windows answers EPERM for a file that is just being deleted.
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'EEXIST' && !(code === 'EPERM' && process.platform === 'win32')) throw error;
  }
  const made = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
  if (made !== undefined && Date.now() - made > staleMs) rmSync(lock, { force: true });
  return false;
}
