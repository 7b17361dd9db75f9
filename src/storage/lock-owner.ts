/** Owns finding the holder of the kernel's lock on a file, in Linux's /proc. Takes no lock itself. */
import { readdir, readFile, stat } from 'node:fs/promises';

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
