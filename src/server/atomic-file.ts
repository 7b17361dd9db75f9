/** Owns replacing a file as a whole: whoever reads it finds the old text or the new one, a crash included. */
import { closeSync, fsyncSync, mkdirSync, openSync, readlinkSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/**
 * Puts a text where the file is, readable for its owner alone (mode 600), and on the disk. A missing folder is made.
 * @throws what the system throws; the old file is still there then.
 */
export function replaceFile(path: string, text: string): void {
  makeFolderOf(path);
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    withDescriptor(openSync(temporary, 'w', 0o600), (descriptor) => {
      writeFileSync(descriptor, text);
      fsyncSync(descriptor);
    });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(path));
}

/**
 * The path of the file that a path leads to through links; one that is missing may be the end of a link, too. To replace
 * the path itself would put a file in the link's place, and leave the other as it was.
 * @throws what the system throws, such as for a ring of links.
 */
export function behindLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
  const target = linkTarget(path);
  return target === undefined ? path : behindLinks(resolve(realpathSync(dirname(path)), target));
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** Makes the folder of a file where it is missing, for this user alone. */
export function makeFolderOf(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
}

/** Windows opens no folders; there the rename alone must do. */
function syncFolder(path: string): void {
  if (process.platform === 'win32') return;
  withDescriptor(openSync(path, 'r'), fsyncSync);
}

function withDescriptor(descriptor: number, use: (descriptor: number) => void): void {
  try {
    use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
