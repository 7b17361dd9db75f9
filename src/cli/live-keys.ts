/** The keys that the server accepts just now: those of the environment, of a file that may change, and of `--dev`. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { digestOfKey, KeyRing, reasonOf, type KeyEntry, type Log } from '../index.js';
import { defaultKeysFile, devKeyName, newApiKey, readKeysFile, replaceFile } from './keys.js';
import { program, Refusal } from './output.js';
import type { Setting, Settings } from './settings.js';

/** Where `--dev` keeps its key, below the working folder. */
const devKeyPath = 'data/dev-key';
const lookMs = 1_000;

/** The keys of all sources; any active one is accepted (C40). */
interface LiveKeys {
  /** The name of the active key that a token is, or undefined. */
  readonly verify: (token: string) => string | undefined;
  /** Reads the file again at once. */
  readonly reload: () => void;
  /** The key of `--dev`. */
  readonly devKey: string | undefined;
}

/**
 * Reads the keys of the environment and of `--dev`, and those of the file, at which it looks each second. A file that
 * cannot be used leaves the keys as they are, and is tried again each second: a revoked key must not stay good for want
 * of a free descriptor.
 * @throws Refusal for a bad key or file, and where no key is active.
 */
export async function openKeys(settings: Settings, log: Log): Promise<LiveKeys> {
  const keysFile = settings.find('keysFile');
  const path = keysFile?.text ?? defaultKeysFile;
  // The default file may come later; one that was there, or was asked for, must stay.
  let needsFile = keysFile !== undefined;
  // Looked at before it is read, so that no change falls between the two.
  let seen: string | undefined = identityOf(path);
  let said = '';

  function readFile(): readonly KeyEntry[] {
    if (!needsFile && !existsSync(path)) return [];
    const read = readKeysFile(path).map(({ name, sha256, expires }) => {
      const entry = { name, digest: Buffer.from(sha256, 'hex') };
      return expires === undefined ? entry : { ...entry, expiresAt: Date.parse(expires) };
    });
    needsFile = true;
    return read;
  }

  const fixed = settings.list('apiKeys').map(readApiKey);
  const stored = readFile();
  // Last, for it may be made now, which nothing that is wrong with the rest should leave on the disk.
  const devKey = settings.has('dev') ? await ownKey() : undefined;
  if (devKey !== undefined) fixed.push({ name: devKeyName, digest: digestOfKey(devKey) });
  const all = [...fixed, ...stored];
  if (all.every(({ expiresAt }) => expiresAt !== undefined && expiresAt <= Date.now())) {
    const problem = all.length === 0 ? 'there is no API key' : 'every API key has expired';
    const mend = `make one with \`${program} keys add NAME\`, set PETSTORE_API_KEYS, or start with --dev`;
    throw new Refusal(`${problem}; ${mend}`);
  }
  let ring = new KeyRing(all, Date.now);

  function readAgain(): void {
    seen = identityOf(path);
    try {
      const present = [...fixed, ...readFile()];
      ring = new KeyRing(present, Date.now);
      said = '';
      log('info', 'keys read again', { keys: present.length });
    } catch (error) {
      const reason = reasonOf(error);
      if (reason !== said) log('warn', 'keys not read again: the last good ones stay', { error: reason });
      said = reason;
      seen = undefined;
    }
  }

  // Not `fs.watchFile`, which never notices what changes before its first look, some time after the call.
  setInterval(() => {
    if (identityOf(path) !== seen) readAgain();
  }, lookMs).unref();
  return {
    devKey,
    verify: (token) => ring.verify(token),
    reload: () => {
      // Whoever asks for it hears how it went, though it is as before.
      said = '';
      readAgain();
    },
  };
}

/** The key of this machine for trying things out: made once, kept in a file for its owner alone. @throws Refusal */
async function ownKey(): Promise<string> {
  const read = (): string => readFileSync(devKeyPath, 'latin1');
  let key: string;
  try {
    // Of two first starts at once, the key of the one is the other's, too.
    if (!existsSync(devKeyPath))
      await replaceFile(devKeyPath, () => (existsSync(devKeyPath) ? read() : `${newApiKey()}\n`));
    key = read().trim();
  } catch (error) {
    throw new Refusal(
      `--dev cannot use ${devKeyPath}: ${reasonOf(error)}; make the folder writable, or use \`keys add\` without --dev`,
    );
  }
  if (/^psk_[A-Za-z0-9_-]{43}$/.test(key)) return key;
  throw new Refusal(`${devKeyPath} holds no key; delete it, and --dev makes a new one`);
}

/** What differs once a file changed, came or went; '' where it is not to be seen. */
function identityOf(path: string): string {
  try {
    const { ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return [ino, size, mtimeNs, ctimeNs].join();
  } catch {
    return '';
  }
}

/** The message names its place, not the key. */
function readApiKey({ text, from }: Setting, index: number): KeyEntry {
  if (!/^[\x21-\x7e]+$/.test(text))
    throw new Refusal(`${from}: key ${index + 1} must be of visible ASCII characters, without spaces`);
  return { name: `env-${index + 1}`, digest: digestOfKey(text) };
}
