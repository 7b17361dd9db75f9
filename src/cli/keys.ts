/** API keys: their file, those that a server accepts, and the `keys` command. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import {
  codeOf,
  digestOfKey,
  KeyRing,
  makeFolder,
  nodeDisk,
  parseJson,
  reasonOf,
  syncFolder,
  type JsonValue,
  type KeyEntry,
  type Log,
} from '../index.js';
import { orRefuse, print, program, Refusal, say } from './output.js';
import { readDuration, timeOf, type Settings } from './settings.js';

const defaultPath = 'data/keys.json';
const devPath = 'data/dev-key';
const newApiKey = () => `psk_${randomBytes(32).toString('base64url')}`;
type StoredKey = ReturnType<typeof readKey>;

/**
 * None where the file is missing and not needed. @throws Refusal, for members too that it does not
 * know
 */
function readKeysFile(path: string, isNeeded = false): readonly StoredKey[] {
  if (!isNeeded && !fs.existsSync(path)) return [];
  try {
    // A pipe would be waited for, by a server that runs too.
    if (!fs.statSync(path).isFile()) throw new Refusal('it is no regular file');
    const list = members(parseJson(fs.readFileSync(path, 'latin1')), ['keys'], 'the file').get(
      'keys',
    );
    if (!Array.isArray(list)) throw new Refusal('"keys" must be an array');
    const keys = list.map(readKey);
    const twice = keys.find(
      ({ name }, index) => keys.findIndex((key) => key.name === name) < index,
    );
    if (twice !== undefined)
      throw new Refusal(`the name ${JSON.stringify(twice.name)} stands twice`);
    return keys;
  } catch (error) {
    const mend =
      'mend it, make one with `keys add NAME`, or name another with --keys-file or PETSTORE_KEYS_FILE';
    throw new Refusal(
      `keys file ${path} cannot be used: ${reasonOf(error).replace(/\.$/, '')}; ${mend}`,
    );
  }
}

/**
 * @throws Refusal also for a name of a key outside the file: keys of one name share their
 * idempotency keys.
 */
function checkName(name: string, place = ''): void {
  if (!/^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u.test(name) || name.trim() !== name)
    throw new Refusal(
      `${place}a name must be 1 to 100 printable characters without spaces around; choose another`,
    );
  if (/^(dev|env-[0-9]+)$/.test(name))
    throw new Refusal(
      `${place}the name ${name} is reserved for keys of --dev and PETSTORE_API_KEYS; choose another`,
    );
}

/** Its times stay texts, of which `timeOf` found that they are times. @throws Refusal */
function readKey(value: JsonValue, index: number) {
  const place = `key ${index + 1}`;
  const key = members(value, ['name', 'sha256', 'created', 'expires'], place);
  const text = (member: string, isRight: (text: string) => boolean, rule: string) => {
    const found = key.get(member);
    if (typeof found === 'string' && isRight(found)) return found;
    throw new Refusal(
      `${place}: "${member}" ${found === undefined ? 'is missing; it must' : 'must'} be ${rule}`,
    );
  };
  const time = (member: string) =>
    text(member, (found) => !Number.isNaN(timeOf(found)), 'a time such as 2026-11-20T08:00:00Z');
  const name = text('name', () => true, 'a text');
  checkName(name, `${place}: `);
  const sha256 = text(
    'sha256',
    (digest) => /^[0-9a-f]{64}$/i.test(digest),
    '64 hexadecimal digits',
  );
  return {
    name,
    sha256,
    created: time('created'),
    expires: key.has('expires') ? time('expires') : undefined,
  };
}

function members(
  value: JsonValue,
  known: readonly string[],
  place: string,
): ReadonlyMap<string, JsonValue> {
  if (!(value instanceof Map)) throw new Refusal(`${place} must be a JSON object`);
  // A misspelt `expires` would make a key that never ends.
  const unknown = [...value.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new Refusal(`${place} has an unknown member ${JSON.stringify(unknown)}`);
  return value;
}

/**
 * The keys of the environment, the keys file and `--dev`. A file that changed is read within a
 * second; where that fails the last good keys stay, and it is tried again. @throws Refusal for a
 * bad key or file, or no active key.
 */
export async function openApiKeys(settings: Settings, log: Log) {
  const path = settings.get('--keys-file', defaultPath).text;
  const isNamed = settings.find('--keys-file') !== undefined;
  const isDev = settings.find('--dev') !== undefined;
  const fixed = settings.list('PETSTORE_API_KEYS').map(({ text, from }, index): KeyEntry => {
    if (/^[\x21-\x7e]+$/.test(text)) return { name: `env-${index + 1}`, digest: digestOfKey(text) };
    throw new Refusal(
      `${from}: key ${index + 1} must be of visible ASCII characters, without spaces`,
    );
  });
  let stored: readonly KeyEntry[] = [];
  let ring = new KeyRing(fixed, Date.now);
  let readIdentity = '';
  let problem = '';

  async function readFile(): Promise<void> {
    // First, so that a change while the file is read is seen as one.
    const identity = await identityOf(path);
    // The default file may be made later; one that is named, or was read once, must be there.
    stored = readKeysFile(path, isNamed || readIdentity !== '').map(
      ({ name, sha256, expires }) => ({
        name,
        digest: Buffer.from(sha256, 'hex'),
        ...(expires !== undefined && { expiresAt: Date.parse(expires) }),
      }),
    );
    ring = new KeyRing([...fixed, ...stored], Date.now);
    readIdentity = identity;
  }

  await readFile();
  const all = [...fixed, ...stored];
  // A file that holds no key is refused now; a missing one is made by `addDevKey`.
  if (isDev && fs.existsSync(devPath)) await readOrMakeDevKey();
  if (!isDev && all.every(({ expiresAt = Infinity }) => expiresAt <= Date.now())) {
    const lack = all.length === 0 ? 'there is no API key' : 'every API key has expired';
    throw new Refusal(
      `${lack}; make one with \`${program} keys add NAME\`, set PETSTORE_API_KEYS or start with --dev`,
    );
  }

  /** `isAsked` by a SIGHUP it logs each failure, otherwise one that repeats only once. */
  async function readAgain(isAsked: boolean): Promise<void> {
    try {
      await readFile();
      problem = '';
      log('info', 'keys read again', { keys: fixed.length + stored.length });
    } catch (error) {
      const reason = reasonOf(error);
      if (isAsked || reason !== problem)
        log('warn', 'keys not read again: the last good ones stay', { error: reason });
      problem = reason;
    }
  }

  // Not `fs.watchFile`, which misses what changes before its first look.
  setInterval(async () => {
    if ((await identityOf(path)) !== readIdentity) await readAgain(false);
  }, 1_000).unref();

  /** Answers the key of `--dev`, which is accepted from now on. */
  async function addDevKey(): Promise<string> {
    const key = await readOrMakeDevKey();
    fixed.push({ name: 'dev', digest: digestOfKey(key) });
    ring = new KeyRing([...fixed, ...stored], Date.now);
    return key;
  }
  return {
    addDevKey,
    verify: (token: string) => ring.verify(token),
    reload: () => void readAgain(true),
  };
}

async function readOrMakeDevKey(): Promise<string> {
  const mend = 'make the folder writable, or use `keys add` without --dev';
  const key = await orRefuse(`--dev cannot use ${devPath}`, mend, async () => {
    const read = () => fs.readFileSync(devPath, 'latin1');
    // Another server may have made the file by the time it is our turn: both use its key.
    const next = () => (fs.existsSync(devPath) ? read() : `${newApiKey()}\n`);
    if (!fs.existsSync(devPath)) await replaceFile(devPath, next);
    return read().trim();
  });
  if (/^psk_[A-Za-z0-9_-]{43}$/.test(key)) return key;
  throw new Refusal(`${devPath} holds no key; delete it, and --dev makes a new one`);
}

/** A text that differs once the file was changed or replaced; empty where there is none. */
async function identityOf(path: string): Promise<string> {
  const facts = await fs.promises.stat(path, { bigint: true }).catch(() => undefined);
  return facts === undefined ? '' : [facts.ino, facts.size, facts.mtimeNs, facts.ctimeNs].join();
}

/** Runs `keys`. @throws Refusal */
export async function keys(
  settings: Settings,
  [action, name, ...more]: readonly string[],
): Promise<void> {
  const path = settings.get('--keys-file', defaultPath).text;
  const expires = settings.find('--expires');
  if (expires !== undefined && action !== 'add')
    throw new Refusal(`flag ${expires.from} is only for \`keys add\`; leave it out`);
  if (action === 'list') {
    if (name !== undefined) throw new Refusal('`keys list` takes no name; it lists all');
    return print(linesOf(readKeysFile(path)));
  }
  if (action !== 'add' && action !== 'revoke')
    throw new Refusal('`keys` needs one of add NAME, list, revoke NAME');
  if (name === undefined || more.length > 0)
    throw new Refusal(`\`keys ${action}\` needs one NAME; put it in quotes where it has spaces`);
  return action === 'revoke'
    ? revoke(path, name)
    : add(path, name, expires && readDuration(expires));
}

async function add(path: string, name: string, lifeMs: number | undefined): Promise<void> {
  checkName(name);
  const key = newApiKey();
  const now = Date.now();
  const created = new Date(now).toISOString();
  const expires = lifeMs === undefined ? undefined : new Date(now + lifeMs).toISOString();
  await changeFile(path, (present) => {
    if (present.some((other) => other.name === name))
      throw new Refusal(
        `there is a key named ${name} in ${path}; choose another name, or revoke that one first`,
      );
    return [...present, { name, sha256: digestOfKey(key).toString('hex'), created, expires }];
  });
  const loss = `the key ${name} is in ${path}, but was shown to nobody; take it out with \`keys revoke ${name}\``;
  await print([key], loss);
  say(`The digest of this key is in ${path} as ${name}; the key itself is shown this once.`);
}

async function revoke(path: string, name: string): Promise<void> {
  // Asked before `changeFile`, which would make the folder of a file that is not there.
  if (readKeysFile(path).every((key) => key.name !== name))
    throw new Refusal(`there is no key named ${name} in ${path}; \`keys list\` shows all`);
  await changeFile(path, (present) => present.filter((key) => key.name !== name));
  say(`${name} is revoked; a running server refuses it within 2 seconds.`);
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

async function changeFile(
  path: string,
  next: (present: readonly StoredKey[]) => readonly StoredKey[],
): Promise<void> {
  const text = () => `${JSON.stringify({ keys: next(readKeysFile(path)) }, undefined, 2)}\n`;
  await orRefuse(`keys file ${path} cannot be written`, 'name another with --keys-file', () =>
    replaceFile(path, text),
  );
}

/**
 * Replaces a file by what `next` makes: as a whole, mode 600, synced, by renaming `FILE.lock`, one
 * process after the other. @throws Refusal where the lock stays held, and what `next` and the
 * system throw; the file then stays.
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
  await makeFolder(nodeDisk, folder);
  const lock = `${file}.lock`;
  const giveUpAt = Date.now() + patienceMs;
  while (!unlessThere(() => fs.writeFileSync(lock, '', { flag: 'wx', mode: 0o600 }))) {
    if (Date.now() > giveUpAt)
      throw new Refusal(
        `${lock} is held by another process; try again, or delete it if there is none`,
      );
    await wait(20);
  }
  try {
    fs.writeFileSync(lock, next(), { flag: 'r+', flush: true });
    fs.renameSync(lock, file);
  } catch (error) {
    fs.rmSync(lock, { force: true });
    throw error;
  }
  await syncFolder(nodeDisk, folder);
}

/** Whether `make` made its file; false where another process was faster. */
function unlessThere(make: () => void): boolean {
  try {
    make();
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}
