/** Owns replacing a file as a whole: whoever reads it finds the old text or the new one, a crash included. */
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

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
