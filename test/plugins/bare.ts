/** Owns a copy of the built server in a folder where no library is installed. */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { folder, root, StartedProcess, type Ended, type RunOptions } from '../support/process.js';

export interface BareServer {
  readonly file: string;
  readonly run: (args: readonly string[], options: RunOptions) => Promise<Ended>;
}

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
