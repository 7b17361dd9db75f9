// Copies the built server to a folder in which no library is installed.
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { folder, root, StartedProcess, type Ended, type RunOptions } from '../support/process.js';

/** A copy of the server without libraries. */
export interface BareServer {
  /** The path of `server.js`. */
  readonly file: string;
  readonly run: (args: readonly string[], options: RunOptions) => Promise<Ended>;
}

/** Copies the server for one test. */
export function serverWithoutLibraries(t: TestContext): BareServer {
  const home = folder(t);
  const isCode = (path: string): boolean => !/\.(ts|map)$/.test(path);
  for (const name of ['dist', 'package.json'])
    cpSync(join(root, name), join(home, name), { recursive: true, filter: isCode });
  const file = join(home, 'dist/server.js');
  return {
    file,
    run: (args, options) => new StartedProcess(process.execPath, [file, ...args], options).ended,
  };
}
