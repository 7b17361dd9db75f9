/** Owns taking turns at a file: whoever could make FILE.lock may replace FILE. Knows not what is in it. */
import { closeSync, existsSync, openSync, rmSync, statSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { makeFolderOf } from './atomic-file.js';
import { Refusal } from './refusal.js';

const retryMs = 20;
/** Work under the lock takes milliseconds; a lock of this age was left behind by a crash. */
const staleMs = 10_000;
/** Long enough to see a lock grow stale. */
const standardPatienceMs = 15_000;

/**
 * Does the work while no other process that asks here does its own; makes the file's folder where it is missing.
 * @throws Refusal where the turn never comes; what the work and the system throw.
 */
export async function withLock<Result>(path: string, work: () => Result, patienceMs = standardPatienceMs): Promise<Result> {
  const lock = `${path}.lock`;
  makeFolderOf(path);
  const giveUpAt = Date.now() + patienceMs;
  while (!takes(lock)) {
    if (Date.now() > giveUpAt) throw held(lock);
    await wait(retryMs);
  }
  try {
    return work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function takes(lock: string): boolean {
  if (makes(lock)) return true;
  if (isStale(lock)) removeStale(lock);
  return false;
}

/**
 * Only one at a time may look and remove: two who saw the same stale lock would otherwise remove it one behind the other, and
 * the second one's would be the new lock of a third. Nobody takes this one over, for it is there for two system calls.
 */
function removeStale(lock: string): void {
  const removing = removingOf(lock);
  if (!makes(removing)) return;
  try {
    if (isStale(lock)) rmSync(lock, { force: true });
  } finally {
    rmSync(removing, { force: true });
  }
}

function removingOf(lock: string): string {
  return `${lock}.stale`;
}

function isStale(lock: string): boolean {
  const made = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
  return made !== undefined && Date.now() - made > staleMs;
}

/** Whether the file was not there and now is; only one of many hears that. */
function makes(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx', 0o600));
    return true;
  } catch (error) {
    // Windows answers EPERM for a file that is just being deleted.
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' || (code === 'EPERM' && process.platform === 'win32')) return false;
    throw error;
  }
}

function held(lock: string): Refusal {
  const alsoLeft = existsSync(removingOf(lock)) ? ` and ${removingOf(lock)}` : '';
  return new Refusal(`${lock} is held by another process; try again, or delete it${alsoLeft} if there is none`);
}
