/** Owns the keys that the server accepts just now: those of the start, and those of a file that may change. */
import { existsSync } from 'node:fs';
import { digestOfKey, KeyRing, type KeyEntry, type Log } from '../index.js';
import { defaultKeysFile, devKeyName, environmentKeyName, keyEntryOf, readKeysFile } from './keys-file.js';
import { reasonOf, Refusal } from './refusal.js';
import type { Setting } from './settings.js';
import { watchFile } from './watch-file.js';

/** Where keys come from. */
export interface KeySources {
  /** Texts from the environment. */
  readonly apiKeys: readonly Setting[];
  /** Answers the key of this machine; undefined without `--dev`. */
  readonly devKey: (() => string) | undefined;
  /** Undefined for the default file, which need not be there. */
  readonly keysFile: Setting | undefined;
}

/** The keys of all sources; any active one is accepted (C40). */
export interface LiveKeys {
  /** The name of the active key that a token is, or undefined. */
  readonly verify: (token: string) => string | undefined;
  /** Reads the file again, as whenever it changes; a bad one leaves the keys as they are, and the log says why. */
  readonly reload: () => void;
}

/** Reads the keys and follows their file. @throws Refusal for a bad key or file, and where no key is active. */
export function openKeys({ apiKeys, devKey, keysFile }: KeySources, log: Log): LiveKeys {
  const path = keysFile?.text ?? defaultKeysFile;
  const fixed = apiKeys.map(readApiKey);
  // Watched before it is read, so that no change falls between the two.
  watchFile(path, reload);
  // The default file may come later; one that was there, or was asked for, must stay.
  let needsFile = keysFile !== undefined;
  const stored = refuseBadFile(readFile, keysFile);
  // Last, for it may be made now, which nothing that is wrong with the rest should leave behind.
  if (devKey !== undefined) fixed.push({ name: devKeyName, digest: digestOfKey(devKey()) });
  const entries = [...fixed, ...stored];
  if (entries.every(hasExpired)) throw new Refusal(noKeys(entries.length));
  let ring = new KeyRing(entries, Date.now);

  function readFile(): readonly KeyEntry[] {
    if (!needsFile && !existsSync(path)) return [];
    const read = readKeysFile(path).map(keyEntryOf);
    needsFile = true;
    return read;
  }

  function reload(): void {
    try {
      const present = [...fixed, ...readFile()];
      ring = new KeyRing(present, Date.now);
      log('info', 'keys read again', { keys: present.length });
    } catch (error) {
      log('warn', 'keys not read again: the last good ones stay', { error: reasonOf(error) });
    }
  }

  return { verify: (token) => ring.verify(token), reload };
}

/** The message names its place, not the key. */
function readApiKey({ text, from }: Setting, index: number): KeyEntry {
  if (!/^[\x21-\x7e]+$/.test(text)) throw new Refusal(`${from}: key ${index + 1} must be of visible ASCII characters, without spaces`);
  return { name: environmentKeyName(index + 1), digest: digestOfKey(text) };
}

function refuseBadFile(read: () => readonly KeyEntry[], keysFile: Setting | undefined): readonly KeyEntry[] {
  try {
    return read();
  } catch (error) {
    const which = keysFile === undefined ? 'it' : `what ${keysFile.from} names`;
    throw new Refusal(`${reasonOf(error)}; mend ${which}, or make another with \`keys add NAME\``);
  }
}

function hasExpired({ expiresAt }: KeyEntry): boolean {
  return expiresAt !== undefined && Date.now() >= expiresAt;
}

function noKeys(expired: number): string {
  const problem = expired === 0 ? 'there is no API key' : 'every API key has expired';
  return `${problem}; make one with \`node dist/server.js keys add NAME\`, set PETSTORE_API_KEYS, or start with --dev`;
}
