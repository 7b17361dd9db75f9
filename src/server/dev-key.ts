/** Owns the key of this machine for trying things out: made once, kept in a file for its owner alone. */
import { existsSync, readFileSync } from 'node:fs';
import { isApiKey, newApiKey } from './api-key.js';
import { replaceFile } from './atomic-file.js';
import { reasonOf, Refusal } from './refusal.js';

/** Where `--dev` keeps its key, below the working folder. */
export const devKeyPath = 'data/dev-key';

/**
 * The key of this machine, made if it isn't there.
 * @throws Refusal where it cannot be read or made.
 */
export function devKey(path = devKeyPath): string {
  try {
    if (!existsSync(path)) replaceFile(path, `${newApiKey()}\n`);
    // Read again even when just made: of two first starts at once, the later file is the key of both.
    const key = readFileSync(path, 'latin1').trim();
    if (isApiKey(key)) return key;
  } catch (error) {
    throw new Refusal(`--dev cannot use ${path}: ${reasonOf(error)}; make the folder writable, or leave --dev out and use \`keys add\``);
  }
  throw new Refusal(`${path} holds no key; delete it, and --dev makes a new one`);
}
