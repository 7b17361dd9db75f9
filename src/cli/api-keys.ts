/** Verifies the API keys of the environment, the keys file and `--dev`. Follows the keys file. */
import fs from 'node:fs';
import { setInterval } from 'node:timers';
import { digestOfKey, KeyRing, reasonOf, type KeyEntry, type Log } from '../index.js';
import { readRegularFile, replaceFile } from './files.js';
import {
  defaultKeysPath,
  newApiKey,
  readKeysFile,
  readKeysIfThere,
  type StoredKey,
} from './keys-file.js';
import { orRefuse, program, refuse } from './output.js';
import type { Settings } from './settings.js';

const devPath = 'data/dev-key';

/** The longest key file of `--dev` in bytes. */
const maxDevKeyBytes = 1_000;

/** The API keys that a server accepts. */
export interface ApiKeys {
  /** Returns the name of the key; undefined if the token is unknown or expired. */
  readonly verify: (token: string, clock?: () => number) => string | undefined;
  /**
   * Accepts the key of `--dev` from now on and returns it. Its file is created if necessary.
   *
   * @throws Refusal
   */
  readonly addDevKey: () => Promise<string>;
  /** Reads the keys file again now, and logs the outcome. */
  readonly reload: () => void;
}

/**
 * Reads the keys of the environment and of the keys file. A changed keys file is read again within
 * a second. If that fails, the old keys stay in use, and the file is tried again each second.
 *
 * @throws Refusal if a key or the file is not valid, or if no key is active
 */
export async function openApiKeys(settings: Settings, log: Log): Promise<ApiKeys> {
  const named = settings.find('--keys-file');
  const path = named?.text ?? defaultKeysPath;

  const fixed = keysOfEnvironment(settings);
  let stored: readonly KeyEntry[] = [];
  const newRing = () => new KeyRing([...fixed, ...stored], Date.now);
  let ring = newRing();
  /** The `identityOf` of the keys in use; empty if there is no keys file. */
  let readIdentity = '';

  async function readFile() {
    // Taken before the file is read, so that a change meanwhile is noticed.
    const identity = await identityOf(path);
    // Only the default file may be missing, and only until it was read once.
    const readStored = named || readIdentity !== '' ? readKeysFile : readKeysIfThere;
    stored = readStored(path).map(entryOf);
    ring = newRing();
    readIdentity = identity;
  }

  await readFile();
  if (!settings.find('--dev')) {
    refuseInactive([...fixed, ...stored]);
  } else if (fs.existsSync(devPath)) {
    // An invalid file is refused before the storage opens; `addDevKey` creates a missing file.
    await readOrMakeDevKey();
  }

  /** The reason of the last failure; empty if the last read succeeded. */
  let problem = '';

  /** Reads the file. If that fails, the old keys stay in use; the same reason is logged once. */
  async function readAgain() {
    try {
      await readFile();
      problem = '';
      log('info', 'keys read again', { keys: fixed.length + stored.length });
    } catch (error) {
      const reason = reasonOf(error);
      if (reason !== problem)
        log('warn', 'the keys file cannot be used; the old keys stay in use', { error: reason });
      problem = reason;
    }
  }

  // `fs.watchFile` would miss a change before its first poll.
  setInterval(async () => {
    if ((await identityOf(path)) !== readIdentity) await readAgain();
  }, 1_000).unref();

  return {
    verify: (token, clock) => ring.verify(token, clock),
    addDevKey: async () => {
      const key = await readOrMakeDevKey();
      fixed.push({ name: 'dev', digest: digestOfKey(key) });
      ring = newRing();
      return key;
    },
    reload: () => {
      // Requested by the operator, so the reason is logged even if it has not changed.
      problem = '';
      void readAgain();
    },
  };
}

/**
 * Returns the keys of `PETSTORE_API_KEYS`.
 *
 * @throws Refusal, without the key
 */
function keysOfEnvironment(settings: Settings): KeyEntry[] {
  return settings.list('PETSTORE_API_KEYS').map(({ text, from }, index) => {
    const number = index + 1;
    if (!/^[\x21-\x7e]+$/.test(text))
      refuse(`${from}: key ${number} must have only visible ASCII characters, and no spaces`);
    return { name: `env-${number}`, digest: digestOfKey(text) };
  });
}

function entryOf({ name, sha256, expires }: StoredKey): KeyEntry {
  const expiresAt = expires === undefined ? Infinity : Date.parse(expires);
  return { name, digest: Buffer.from(sha256, 'hex'), expiresAt };
}

/** @throws Refusal if no key is active, because the server would reject every request */
function refuseInactive(keys: readonly KeyEntry[]): void {
  if (keys.some(({ expiresAt = Infinity }) => expiresAt > Date.now())) return;

  const problem = keys.length === 0 ? 'there is no API key' : 'every API key has expired';
  const hint = `make one with \`${program} keys add NAME\` and start again`;
  refuse(
    `${problem}; ${hint}, set PETSTORE_API_KEYS, or try the server out with \`${program} --dev\``,
  );
}

async function readOrMakeDevKey(): Promise<string> {
  const hint = `fix that file or its folder, or use \`${program} keys add\` without --dev`;

  const key = await orRefuse(`--dev cannot use ${devPath}`, hint, async () => {
    const readText = () => readRegularFile(devPath, maxDevKeyBytes).toString('latin1');
    // If another server creates the file first, both use its key.
    const next = () => (fs.existsSync(devPath) ? readText() : `${newApiKey()}\n`);
    if (!fs.existsSync(devPath)) await replaceFile(devPath, next);
    return readText().trim();
  });

  if (/^psk_[A-Za-z0-9_-]{43}$/.test(key)) return key;
  refuse(`${devPath} has no valid key; delete the file, and --dev makes a new one`);
}

/** Returns a text that changes with the file; empty if the file does not exist. */
async function identityOf(path: string): Promise<string> {
  const facts = await fs.promises.stat(path, { bigint: true }).catch(() => undefined);
  return facts === undefined ? '' : [facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join();
}
