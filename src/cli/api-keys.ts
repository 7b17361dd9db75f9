/** The API keys that a server accepts: of the environment, the keys file and `--dev`. */
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

/** More bytes than the file of the key of `--dev` has. */
const maxDevKeyBytes = 1_000;

/** The API keys that a server accepts. */
export interface ApiKeys {
  /** The name of the key that a token is; undefined for none that is known and not expired. */
  readonly verify: (token: string) => string | undefined;
  /**
   * Adds the key of `--dev`, which is made where there is none, and answers it.
   *
   * @throws Refusal
   */
  readonly addDevKey: () => Promise<string>;
  /** Reads the keys file again now, and logs what came of it. */
  readonly reload: () => void;
}

/**
 * Opens the keys of the environment, the keys file and `--dev`. A keys file that changed is read
 * again within a second. Where that fails the last good keys stay, and it is tried again.
 *
 * @throws Refusal for a bad key or file, and where no key is active
 */
export async function openApiKeys(settings: Settings, log: Log): Promise<ApiKeys> {
  const named = settings.find('--keys-file');
  const path = named?.text ?? defaultKeysPath;

  const fixed = keysOfEnvironment(settings);
  let stored: readonly KeyEntry[] = [];
  const newRing = () => new KeyRing([...fixed, ...stored], Date.now);
  let ring = newRing();
  /** What `identityOf` said of the file that was read; empty until one was read. */
  let readIdentity = '';

  async function readFile() {
    // This comes first, so that a change while the file is read is seen as one.
    const identity = await identityOf(path);
    // The default file may be made later; one that is named, or was read once, must be there.
    const readStored = named || readIdentity !== '' ? readKeysFile : readKeysIfThere;
    stored = readStored(path).map(entryOf);
    ring = newRing();
    readIdentity = identity;
  }

  await readFile();
  if (!settings.find('--dev')) {
    refuseInactive([...fixed, ...stored]);
  } else if (fs.existsSync(devPath)) {
    // A file that holds no key is refused now; a missing one is made by `addDevKey`.
    await readOrMakeDevKey();
  }

  /** Why the file could not be read the last time; empty where it could. */
  let problem = '';

  /** Reads the file, or keeps the last good keys. A failure that repeats is logged once. */
  async function readAgain() {
    try {
      await readFile();
      problem = '';
      log('info', 'keys read again', { keys: fixed.length + stored.length });
    } catch (error) {
      const reason = reasonOf(error);
      if (reason !== problem)
        log('warn', 'keys not read again: the last good ones stay', { error: reason });
      problem = reason;
    }
  }

  // `fs.watchFile` would miss what changes before its first look.
  setInterval(async () => {
    if ((await identityOf(path)) !== readIdentity) await readAgain();
  }, 1_000).unref();

  return {
    verify: (token) => ring.verify(token),
    addDevKey: async () => {
      const key = await readOrMakeDevKey();
      fixed.push({ name: 'dev', digest: digestOfKey(key) });
      ring = newRing();
      return key;
    },
    reload: () => {
      // The operator asked for it, so a failure that repeats is logged again.
      problem = '';
      void readAgain();
    },
  };
}

/**
 * The keys of `PETSTORE_API_KEYS`.
 *
 * @throws Refusal, which does not repeat the key
 */
function keysOfEnvironment(settings: Settings): KeyEntry[] {
  return settings.list('PETSTORE_API_KEYS').map(({ text, from }, index) => {
    const number = index + 1;
    if (!/^[\x21-\x7e]+$/.test(text))
      refuse(`${from}: key ${number} must be of visible ASCII characters, without spaces`);
    return { name: `env-${number}`, digest: digestOfKey(text) };
  });
}

function entryOf({ name, sha256, expires }: StoredKey): KeyEntry {
  const expiresAt = expires === undefined ? Infinity : Date.parse(expires);
  return { name, digest: Buffer.from(sha256, 'hex'), expiresAt };
}

/** @throws Refusal where no key is active, so that nobody could use the server. */
function refuseInactive(keys: readonly KeyEntry[]): void {
  if (keys.some(({ expiresAt = Infinity }) => expiresAt > Date.now())) return;

  const lack = keys.length === 0 ? 'there is no API key' : 'every API key has expired';
  const mend = `make one with \`${program} keys add NAME\`, set PETSTORE_API_KEYS`;
  refuse(`${lack}; ${mend} or start with --dev`);
}

async function readOrMakeDevKey(): Promise<string> {
  const hint = `see to that file and its folder, or use \`${program} keys add\` without --dev`;

  const key = await orRefuse(`--dev cannot use ${devPath}`, hint, async () => {
    const readText = () => readRegularFile(devPath, maxDevKeyBytes).toString('latin1');
    // Another server may have made the file by the time that it is our turn: both use its key.
    const next = () => (fs.existsSync(devPath) ? readText() : `${newApiKey()}\n`);
    if (!fs.existsSync(devPath)) await replaceFile(devPath, next);
    return readText().trim();
  });

  if (/^psk_[A-Za-z0-9_-]{43}$/.test(key)) return key;
  refuse(`${devPath} holds no key; delete it, and --dev makes a new one`);
}

/** A text that differs once the file was changed or replaced; empty where there is none. */
async function identityOf(path: string): Promise<string> {
  const facts = await fs.promises.stat(path, { bigint: true }).catch(() => undefined);
  return facts === undefined ? '' : [facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join();
}
