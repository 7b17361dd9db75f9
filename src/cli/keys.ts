/** API keys: their file, those that a server accepts, and the `keys` command. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import {
  codeOf,
  digestOfKey,
  KeyRing,
  makeFolders,
  nodeDisk,
  parseJson,
  reasonOf,
  syncFolder,
  type JsonValue,
  type KeyEntry,
  type Log,
} from '../index.js';
import { orRefuse, print, printNotice, program, refuse } from './output.js';
import { readDuration, timeOf, type Run, type Settings } from './settings.js';

const defaultPath = 'data/keys.json';
const devPath = 'data/dev-key';
const newApiKey = () => `psk_${randomBytes(32).toString('base64url')}`;

/** A key of the keys file. Its times are texts, of which `timeOf` found that they are times. */
interface StoredKey {
  readonly name: string;
  /** The SHA-256 of the key, in hexadecimal digits. */
  readonly sha256: string;
  readonly created: string;
  /** Undefined for a key that never expires. */
  readonly expires: string | undefined;
}

/**
 * Reads the keys file, which must be there.
 *
 * @throws Refusal for what is no keys file, and for members that are not known
 */
function readKeysFile(path: string): readonly StoredKey[] {
  try {
    // A pipe would be waited for, and a server that runs would stand still.
    if (!fs.statSync(path).isFile()) refuse('it is no regular file');

    const file = membersOf(parseJson(fs.readFileSync(path, 'latin1')), ['keys'], 'the file');
    const list = file.get('keys');
    if (!Array.isArray(list)) refuse('"keys" must be an array');

    const keys = list.map(readKey);
    const names = keys.map(({ name }) => name);
    const twice = names.find((name, index) => names.indexOf(name) < index);
    if (twice !== undefined) refuse(`the name ${JSON.stringify(twice)} stands twice`);
    return keys;
  } catch (error) {
    // The reader of JSON ends its sentence with a full stop, and here the sentence goes on.
    const reason = reasonOf(error).replace(/\.$/, '');
    const mend = `mend it, make one with \`${program} keys add NAME\`, or name another`;
    const options = 'with --keys-file or PETSTORE_KEYS_FILE';
    refuse(`keys file ${path} cannot be used: ${reason}; ${mend} ${options}`);
  }
}

/** The keys of the file; none where it is missing. */
const readKeysIfThere = (path: string) => (fs.existsSync(path) ? readKeysFile(path) : []);

/**
 * Checks the name of a key of the file. The names of keys outside the file are refused, as keys of
 * one name share their idempotency keys.
 *
 * @param place Where the name stands, in front of the message.
 * @throws Refusal
 */
function checkName(name: string, place = ''): void {
  if (!/^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u.test(name) || name.trim() !== name)
    refuse(
      `${place}a name must be 1 to 100 printable characters without spaces around; choose another`,
    );

  const owners = 'keys of --dev and PETSTORE_API_KEYS';
  if (/^(dev|env-[0-9]+)$/.test(name))
    refuse(`${place}the name ${name} is reserved for ${owners}; choose another`);
}

/**
 * Reads one key of the list.
 *
 * @throws Refusal
 */
function readKey(value: JsonValue, index: number): StoredKey {
  const place = `key ${index + 1}`;
  const key = membersOf(value, ['name', 'sha256', 'created', 'expires'], place);

  const text = (member: string, isRight: (text: string) => boolean, rule: string) => {
    const found = key.get(member);
    if (typeof found === 'string' && isRight(found)) return found;

    const must = found === undefined ? 'is missing; it must' : 'must';
    refuse(`${place}: "${member}" ${must} be ${rule}`);
  };
  const time = (member: string) =>
    text(member, (found) => !Number.isNaN(timeOf(found)), 'a time such as 2026-11-20T08:00:00Z');
  const isDigest = (found: string) => /^[0-9a-f]{64}$/i.test(found);

  const name = text('name', () => true, 'a text');
  checkName(name, `${place}: `);

  return {
    name,
    sha256: text('sha256', isDigest, '64 hexadecimal digits'),
    created: time('created'),
    expires: key.has('expires') ? time('expires') : undefined,
  };
}

/**
 * The members of an object.
 *
 * @throws Refusal for an unknown one: a misspelt `expires` would make a key that never ends
 */
function membersOf(
  value: JsonValue,
  known: readonly string[],
  place: string,
): ReadonlyMap<string, JsonValue> {
  if (!(value instanceof Map)) refuse(`${place} must be a JSON object`);

  const unknown = [...value.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) refuse(`${place} has an unknown member ${JSON.stringify(unknown)}`);
  return value;
}

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
  const path = named?.text ?? defaultPath;

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
  const mend = `make the folder writable, or use \`${program} keys add\` without --dev`;

  const key = await orRefuse(`--dev cannot use ${devPath}`, mend, async () => {
    const readText = () => fs.readFileSync(devPath, 'latin1');
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

/**
 * Runs `keys add`, `keys list` or `keys revoke`.
 *
 * @throws Refusal
 */
export const run: Run = async (settings, [action, name, ...more]) => {
  const path = settings.get('--keys-file', defaultPath).text;
  const expires = settings.find('--expires');
  if (expires !== undefined && action !== 'add')
    refuse(`flag ${expires.from} is only for \`keys add\`; leave it out`);

  if (action === 'list') {
    if (name !== undefined) refuse('`keys list` takes no name; it lists all');
    return print(linesOf(readKeysIfThere(path)));
  }

  if (action !== 'add' && action !== 'revoke')
    refuse('`keys` needs one of add NAME, list, revoke NAME');
  if (name === undefined || more.length > 0)
    refuse(`\`keys ${action}\` needs one NAME; put it in quotes where it has spaces`);

  return action === 'revoke'
    ? revoke(path, name)
    : add(path, name, expires && readDuration(expires));
};

/** Makes a key that lives so long, undefined for ever, and prints it. */
async function add(path: string, name: string, lifeMs: number | undefined) {
  checkName(name);

  const key = newApiKey();
  const sha256 = digestOfKey(key).toString('hex');
  const now = Date.now();
  const created = new Date(now).toISOString();
  const expires = lifeMs === undefined ? undefined : new Date(now + lifeMs).toISOString();

  await changeFile(path, (present) => {
    if (present.some((other) => other.name === name))
      refuse(
        `there is a key named ${name} in ${path}; choose another name, or revoke that one first`,
      );
    return [...present, { name, sha256, created, expires }];
  });

  const loss = `the key ${name} is in ${path}, but was shown to nobody`;
  await print([key], `${loss}; take it out with \`${program} keys revoke ${name}\``);
  printNotice(
    `The digest of this key is in ${path} as ${name}; the key itself is shown this once.`,
  );
}

async function revoke(path: string, name: string) {
  // The name is looked for before `changeFile`, which would make the folder of a missing file.
  if (readKeysIfThere(path).every((key) => key.name !== name))
    refuse(`there is no key named ${name} in ${path}; \`${program} keys list\` shows all`);

  await changeFile(path, (present) => present.filter((key) => key.name !== name));
  printNotice(`${name} is revoked; a running server refuses it within 2 seconds.`);
}

function linesOf(stored: readonly StoredKey[]): readonly string[] {
  const width = Math.max(...stored.map(({ name }) => name.length));

  return stored.map(({ name, created, expires }) => {
    const isOver = expires !== undefined && Date.now() >= Date.parse(expires);
    const end =
      expires === undefined ? 'never expires' : `${isOver ? 'expired' : 'expires'} ${expires}`;
    return `${name.padEnd(width)}  created ${created}  ${end}`;
  });
}

/** Replaces the keys of the file by what `next` makes of them. */
async function changeFile(
  path: string,
  next: (present: readonly StoredKey[]) => readonly StoredKey[],
) {
  const text = () => `${JSON.stringify({ keys: next(readKeysIfThere(path)) }, undefined, 2)}\n`;
  await orRefuse(`keys file ${path} cannot be written`, 'name another with --keys-file', () =>
    replaceFile(path, text),
  );
}

/**
 * Replaces a file as a whole by a new one of mode 600, which is on the medium in the end. The new
 * one is written as `FILE.lock` and then renamed: while that is there, other processes wait for
 * their turn.
 *
 * @param next Makes the text of the new file, once nobody else changes the old one.
 * @throws Refusal where the lock stays held, and whatever `next` and the system throw. The file
 * then stays as it was.
 */
export async function replaceFile(
  path: string,
  next: () => string,
  patienceMs = 5_000,
): Promise<void> {
  // Renaming to a symbolic link would replace the link; one that leads nowhere is refused here.
  const file =
    fs.lstatSync(path, { throwIfNoEntry: false }) === undefined ? path : fs.realpathSync(path);
  const folder = dirname(file);
  await makeFolders(nodeDisk, folder);

  const lock = `${file}.lock`;
  await takeLock(lock, patienceMs);

  try {
    fs.writeFileSync(lock, next(), { flag: 'r+', flush: true });
    fs.renameSync(lock, file);
  } catch (error) {
    fs.rmSync(lock, { force: true });
    throw error;
  }

  await syncFolder(nodeDisk, folder);
}

/**
 * Makes the lock file, once no other process has one.
 *
 * @throws Refusal where another still has it after that time
 */
async function takeLock(lock: string, patienceMs: number) {
  const giveUpAt = Date.now() + patienceMs;

  for (;;) {
    try {
      return fs.writeFileSync(lock, '', { flag: 'wx', mode: 0o600 });
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }

    if (Date.now() > giveUpAt)
      refuse(`${lock} is held by another process; try again, or delete it if there is none`);
    await wait(20);
  }
}
