/** Owns saying who has a file; finds the holder of the kernel's lock in Linux's /proc. Takes no lock itself. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { PetstoreError } from '../errors.js';

/** The refusal of a file that the process of this pid has (F4); undefined is one that cannot be told. */
export function inUse(path: string, owner: number | undefined): PetstoreError {
  const who = owner === undefined ? 'another process' : `process ${owner}`;
  return new PetstoreError('storage_in_use', `${path} is in use by ${who}: stop that one first, or name another file`);
}

/** The pid of the process that holds a flock on the file of this descriptor; undefined where that cannot be seen. */
export async function ownerOf(descriptor: number): Promise<number | undefined> {
  const file = await stat(`/proc/self/fd/${descriptor}`).catch(() => undefined);
  if (file === undefined) return undefined;
  const pids = (await namesIn('/proc')).filter((name) => /^[0-9]+$/.test(name));
  for (const pid of pids) {
    for (const number of await namesIn(`/proc/${pid}/fd`)) {
      const opened = await stat(`/proc/${pid}/fd/${number}`).catch(() => undefined);
      if (opened?.ino !== file.ino || opened.dev !== file.dev) continue;
      // The pid in this entry is the dead `flock` program's; that it stands here tells whose open file has the lock.
      const info = await readFile(`/proc/${pid}/fdinfo/${number}`, 'utf8').catch(() => '');
      if (/^lock:.*FLOCK/m.test(info)) return Number(pid);
    }
  }
  return undefined;
}

/** Another user's processes are closed to us, and any process may end while we look. */
async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}
