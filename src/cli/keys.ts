/** API keys: their file, those that a server accepts, and the `keys` command. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf, digestOfKey, KeyRing, parseJson, reasonOf } from '../index.js';
import type { JsonValue, KeyEntry, Log } from '../index.js';
import { orRefuse, print, program, Refusal, say } from './output.js';
import { readDuration, timeOf, type Settings } from './settings.js';

const defaultPath = 'data/keys.json';
const devPath = 'data/dev-key';
const devName = 'dev';

/** A key as the file has it; the times are for `timeOf`. */
interface StoredKey {
  readonly name: string;
  readonly sha256: string;
  readonly created: string;
  readonly expires?: string;
}

function newApiKey(): string {
  return `psk_${randomBytes(32).toString('base64url')}`;
}

/** Strict: no typing error may open a door. @throws Refusal */
function readKeysFile(path: string): readonly StoredKey[] {
  try {
    const list = members(parseJson(fs.readFileSync(path, 'latin1')), ['keys'], 'the file').get('keys');
    if (!Array.isArray(list)) throw new Refusal('"keys" must be an array');
    const keys = list.map(readKey);
    const twice = keys.find(({ name }, index) => keys.findIndex((key) => key.name === name) < index);
    if (twice !== undefined) throw new Refusal(`the name ${JSON.stringify(twice.name)} stands twice`);
    return keys;
  } catch (error) {
    const mend = 'mend it, make one with `keys add NAME`, or name another with --keys-file or PETSTORE_KEYS_FILE';
    throw new Refusal(`keys file ${path} cannot be used: ${reasonOf(error).replace(/\.$/, '')}; ${mend}`);
  }
}

function isKeyName(text: string): boolean {
  return /^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u.test(text) && text.trim() === text;
}

/** @throws Refusal for a name of a key outside the file: both would share their idempotency keys. */
function refuseReserved(name: string, place = ''): void {
  if (name === devName || /^env-[0-9]+$/.test(name))
    throw new Refusal(`${place}the name ${name} is reserved for keys of --dev and PETSTORE_API_KEYS; choose another`);
}

function readKey(value: JsonValue, index: number): StoredKey {
  const place = `key ${index + 1}`;
  const key = members(value, ['name', 'sha256', 'created', 'expires'], place);
  const text = (member: string, isRight: (text: string) => boolean, rule: string) => {
    const found = key.get(member);
    if (typeof found === 'string' && isRight(found)) return found;
    throw new Refusal(`${place}: "${member}" ${found === undefined ? 'is missing; it must' : 'must'} be ${rule}`);
  };
  const isTime = (time: string) => !Number.isNaN(timeOf(time));
  const time = 'a time such as 2026-11-20T08:00:00Z';
  const name = text('name', isKeyName, 'a text of 1 to 100 printable characters');
  refuseReserved(name, `${place}: `);
  return {
    name,
    sha256: text('sha256', (digest) => /^[0-9a-f]{64}$/i.test(digest), '64 hexadecimal digits'),
    created: text('created', isTime, time),
    ...(key.has('expires') && { expires: text('expires', isTime, `${time}, or be left out`) }),
  };
}

/** @throws Refusal for an unknown member, which may be a misspelt "expires". */
function members(value: JsonValue, known: readonly string[], place: string): ReadonlyMap<string, JsonValue> {
  if (!(value instanceof Map)) throw new Refusal(`${place} must be a JSON object`);
  const unknown = [...value.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Refusal(`${place} has an unknown member ${JSON.stringify(unknown)}`);
  return value;
}

/**
 * The keys of the environment, of `--dev`, and of the file, which it looks at each second (C40). A bad file is tried
 * again: a revoked key must not stay good for want of a free descriptor.
 * @throws Refusal for a bad key or file, and where no key is active.
 */
export async function openKeys(settings: Settings, log: Log) {
  const path = settings.get('--keys-file', defaultPath).text;
  // The default file may come later; once there, or asked for, it must stay.
  let needsFile = settings.find('--keys-file') !== undefined;
  // Before it is read: no change falls between the two.
  let seen: string | undefined = identityOf(path);
  let said = '';

  function readFile(): readonly KeyEntry[] {
    if (!needsFile && !fs.existsSync(path)) return [];
    const keys = readKeysFile(path);
    needsFile = true;
    return keys.map(({ name, sha256, expires }) => ({
      name,
      digest: Buffer.from(sha256, 'hex'),
      ...(expires !== undefined && { expiresAt: Date.parse(expires) }),
    }));
  }

  const fixed = settings.list('PETSTORE_API_KEYS').map(({ text, from }, index): KeyEntry => {
    if (/^[\x21-\x7e]+$/.test(text)) return { name: `env-${index + 1}`, digest: digestOfKey(text) };
    throw new Refusal(`${from}: key ${index + 1} must be of visible ASCII characters, without spaces`);
  });
  let stored = readFile();
  const isTrial = settings.has('--dev');
  if (isTrial && fs.existsSync(devPath)) await ownKey();
  const all = [...fixed, ...stored];
  if (!isTrial && all.every(({ expiresAt }) => expiresAt !== undefined && expiresAt <= Date.now())) {
    const problem = all.length === 0 ? 'there is no API key' : 'every API key has expired';
    const mend = `make one with \`${program} keys add NAME\`, set PETSTORE_API_KEYS, or start with --dev`;
    throw new Refusal(`${problem}; ${mend}`);
  }
  let ring = new KeyRing(all, Date.now);

  /** Without being asked it says each reason once. */
  function readAgain(isAsked: boolean) {
    seen = identityOf(path);
    try {
      stored = readFile();
      ring = new KeyRing([...fixed, ...stored], Date.now);
      said = '';
      log('info', 'keys read again', { keys: fixed.length + stored.length });
    } catch (error) {
      const reason = reasonOf(error);
      if (isAsked || reason !== said) log('warn', 'keys not read again: the last good ones stay', { error: reason });
      said = reason;
      seen = undefined;
    }
  }

  // `fs.watchFile` misses what changes before its first look.
  setInterval(() => {
    if (identityOf(path) !== seen) readAgain(false);
  }, 1_000).unref();

  /** Adds the key of `--dev`; it is made last: a refused start leaves nothing on the disk. */
  async function addDevKey() {
    const key = await ownKey();
    fixed.push({ name: devName, digest: digestOfKey(key) });
    ring = new KeyRing([...fixed, ...stored], Date.now);
    return key;
  }
  return { addDevKey, verify: (token: string) => ring.verify(token), reload: () => readAgain(true) };
}

async function ownKey(): Promise<string> {
  const read = () => fs.readFileSync(devPath, 'latin1');
  const mend = 'make the folder writable, or use `keys add` without --dev';
  const key = await orRefuse(`--dev cannot use ${devPath}`, mend, async () => {
    // Two first starts at once share the key of one.
    const next = () => (fs.existsSync(devPath) ? read() : `${newApiKey()}\n`);
    if (!fs.existsSync(devPath)) await replaceFile(devPath, next);
    return read().trim();
  });
  if (/^psk_[A-Za-z0-9_-]{43}$/.test(key)) return key;
  throw new Refusal(`${devPath} holds no key; delete it, and --dev makes a new one`);
}

function identityOf(path: string): string {
  try {
    const { ino, size, mtimeNs, ctimeNs } = fs.statSync(path, { bigint: true });
    return [ino, size, mtimeNs, ctimeNs].join();
  } catch {
    return '';
  }
}

/** Runs `keys`. @throws Refusal */
export async function keys(settings: Settings, [action, ...names]: readonly string[]): Promise<void> {
  const path = settings.get('--keys-file', defaultPath).text;
  const expires = settings.find('--expires');
  if (expires !== undefined && action !== 'add')
    throw new Refusal(`flag ${expires.from} is only for \`keys add\`; leave it out`);
  if (action === 'list') {
    if (names.length > 0) throw new Refusal('`keys list` takes no name; it lists all');
    return print(storedIn(path).map(lineOf));
  }
  if (action !== 'add' && action !== 'revoke') throw new Refusal('`keys` needs one of add NAME, list, revoke NAME');
  const [name] = names;
  if (name === undefined || names.length > 1)
    throw new Refusal(`\`keys ${action}\` needs one NAME; put it in quotes where it has spaces`);
  return action === 'revoke' ? revoke(path, name) : add(path, name, expires && readDuration(expires));
}

async function add(path: string, name: string, lifeMs: number | undefined): Promise<void> {
  if (!isKeyName(name))
    throw new Refusal('the name of a key must be 1 to 100 printable characters without spaces around; choose another');
  refuseReserved(name);
  const key = newApiKey();
  const now = Date.now();
  const made = {
    name,
    sha256: digestOfKey(key).toString('hex'),
    created: new Date(now).toISOString(),
    ...(lifeMs !== undefined && { expires: new Date(now + lifeMs).toISOString() }),
  };
  await change(path, (present) => {
    if (present.some((other) => other.name === name))
      throw new Refusal(`there is a key named ${name} in ${path}; choose another name, or revoke that one first`);
    return [...present, made];
  });
  await print(
    [key],
    `the key ${name} is in ${path}, but was shown to nobody; take it out with \`keys revoke ${name}\``,
  );
  say(`The digest of this key is in ${path} as ${name}; the key itself is shown this once.`);
}

async function revoke(path: string, name: string): Promise<void> {
  // The change would make the folder.
  if (storedIn(path).every((key) => key.name !== name))
    throw new Refusal(`there is no key named ${name} in ${path}; \`keys list\` shows all`);
  await change(path, (present) => present.filter((key) => key.name !== name));
  say(`${name} is revoked; a running server refuses it within 2 seconds.`);
}

function lineOf({ name, created, expires }: StoredKey, _index: number, all: readonly StoredKey[]): string {
  const width = Math.max(...all.map((key) => key.name.length));
  const isOver = expires !== undefined && Date.now() >= Date.parse(expires);
  const end = expires === undefined ? 'never expires' : `${isOver ? 'expired' : 'expires'} ${expires}`;
  return `${name.padEnd(width)}  created ${created}  ${end}`;
}

async function change(path: string, next: (present: readonly StoredKey[]) => readonly StoredKey[]): Promise<void> {
  const text = () => `${JSON.stringify({ keys: next(storedIn(path)) }, undefined, 2)}\n`;
  await orRefuse(`keys file ${path} cannot be written`, 'name another with --keys-file', () => replaceFile(path, text));
}

function storedIn(path: string): readonly StoredKey[] {
  return fs.existsSync(path) ? readKeysFile(path) : [];
}

/** Work under a lock takes milliseconds; one of this age was left by a crash. */
const staleMs = 10_000;

/**
 * Replaces a file by the text that `next` makes: as a whole, for its owner alone (mode 600), on the disk, one process
 * after the other. The new file is the lock, until it takes the place of the old one.
 * @param patienceMs How long it waits for its turn: by default long enough to see a lock grow stale.
 * @throws Refusal where the turn never comes; what `next` and the system throw. The old file stays then.
 */
export async function replaceFile(path: string, next: () => string, patienceMs = 15_000): Promise<void> {
  const file = throughLinks(path);
  const folder = dirname(file);
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const lock = `${file}.lock`;
  await takeLock(lock, patienceMs);
  try {
    fs.writeFileSync(lock, next(), { flag: 'r+', flush: true });
    fs.renameSync(lock, file);
  } catch (error) {
    fs.rmSync(lock, { force: true });
    throw error;
  }
  // Windows opens no folders.
  if (process.platform === 'win32') return;
  const descriptor = fs.openSync(folder, 'r');
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
}

/** Where a path leads, be it to a file that is still missing: a link must stay a link. */
function throughLinks(path: string): string {
  // Throws for a circle.
  if (fs.statSync(path, { throwIfNoEntry: false })) return fs.realpathSync(path);
  return fs.lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()
    ? throughLinks(resolve(fs.realpathSync(dirname(path)), fs.readlinkSync(path)))
    : path;
}

async function takeLock(lock: string, patienceMs: number): Promise<void> {
  const removing = `${lock}.stale`;
  for (const giveUpAt = Date.now() + patienceMs; !makes(lock); await wait(20)) {
    // One at a time: of two who saw the same stale lock, the second would remove the new lock of a third. Nobody takes
    // this one over: it is there for two system calls.
    if (isStale(lock) && makes(removing)) {
      try {
        if (isStale(lock)) fs.rmSync(lock, { force: true });
      } finally {
        fs.rmSync(removing, { force: true });
      }
    }
    if (Date.now() > giveUpAt) {
      const alsoLeft = fs.existsSync(removing) ? ` and ${removing}` : '';
      throw new Refusal(`${lock} is held by another process; try again, or delete it${alsoLeft} if there is none`);
    }
  }
}

function isStale(lock: string): boolean {
  const made = fs.statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
  return made !== undefined && Date.now() - made > staleMs;
}

function makes(path: string): boolean {
  try {
    fs.closeSync(fs.openSync(path, 'wx', 0o600));
    return true;
  } catch (error) {
    // Windows answers EPERM for a file that is just being deleted.
    const code = codeOf(error);
    if (code === 'EEXIST' || (code === 'EPERM' && process.platform === 'win32')) return false;
    throw error;
  }
}
