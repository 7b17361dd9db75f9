/** Owns the keys that the server accepts just now: those of the start, and those of a file that may change. */
import { existsSync } from 'node:fs';
import { digestOfKey, KeyRing, type KeyEntry, type Log } from '../index.js';
import { defaultKeysFile, keyEntryOf, readKeysFile } from './keys-file.js';
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

/** Any active key of any source is accepted (C40). */
export class LiveKeys {
  readonly #fixed: readonly KeyEntry[];
  readonly #path: string;
  readonly #log: Log;
  /** The default file may come later; one that was there, or was asked for, must stay. */
  #needsFile: boolean;
  #ring: KeyRing;

  /** @throws Refusal for a bad key or file, and where there is no active key at all. */
  constructor({ apiKeys, devKey, keysFile }: KeySources, log: Log) {
    const given = apiKeys.map(readApiKey);
    this.#path = keysFile?.text ?? defaultKeysFile;
    this.#needsFile = keysFile !== undefined;
    this.#log = log;
    // Watched before it is read, so that no change falls between the two.
    watchFile(this.#path, () => this.reload());
    const stored = this.#readFile(keysFile?.from);
    // Last, for it may be made now, which nothing that is wrong with the rest should leave behind.
    this.#fixed = devKey === undefined ? given : [...given, { name: 'dev', digest: digestOfKey(devKey()) }];
    const entries = [...this.#fixed, ...stored];
    if (entries.every(hasExpired)) throw new Refusal(noKeys(entries.length));
    this.#ring = new KeyRing(entries, Date.now);
  }

  /** The name of the active key that a token is, or undefined. */
  verify(token: string): string | undefined {
    return this.#ring.verify(token);
  }

  /** Reads the file again, as whenever it changes; a bad one leaves the keys as they are, and the log says why. */
  reload(): void {
    try {
      const entries = [...this.#fixed, ...this.#readFile()];
      this.#ring = new KeyRing(entries, Date.now);
      this.#log('info', 'keys read again', { keys: entries.length });
    } catch (error) {
      this.#log('warn', 'keys not read again: the last good ones stay', { error: reasonOf(error) });
    }
  }

  #readFile(from = 'the default'): readonly KeyEntry[] {
    if (!this.#needsFile && !existsSync(this.#path)) return [];
    try {
      const stored = readKeysFile(this.#path);
      this.#needsFile = true;
      return stored.map(keyEntryOf);
    } catch (error) {
      throw new Refusal(`${reasonOf(error)}; mend it (${from} names it), or make another with \`keys add NAME\``);
    }
  }
}

/** The message names its place, not the key. */
function readApiKey({ text, from }: Setting, index: number): KeyEntry {
  if (!/^[\x21-\x7e]+$/.test(text)) throw new Refusal(`${from}: key ${index + 1} must be of visible ASCII characters, without spaces`);
  return { name: `env-${index + 1}`, digest: digestOfKey(text) };
}

function hasExpired({ expiresAt }: KeyEntry): boolean {
  return expiresAt !== undefined && Date.now() >= expiresAt;
}

function noKeys(expired: number): string {
  const problem = expired === 0 ? 'there is no API key' : 'every API key has expired';
  return `${problem}; make one with \`node dist/server.js keys add NAME\`, set PETSTORE_API_KEYS, or start with --dev`;
}
