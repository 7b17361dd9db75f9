/** Owns the `keys` command: making, listing and revoking API keys. Knows neither the file's form nor a server. */
import { existsSync } from 'node:fs';
import { digestOfKey } from '../index.js';
import { newApiKey } from '../server/api-key.js';
import { behindLinks, replaceFile } from '../server/atomic-file.js';
import { withLock } from '../server/file-lock.js';
import { defaultKeysFile, formatKeysFile, isKeyName, isReservedName, readKeysFile, reservedName, type StoredKey } from '../server/keys-file.js';
import { print } from '../server/print.js';
import { printable } from '../server/printable.js';
import { reasonOf, Refusal } from '../server/refusal.js';
import type { Settings } from '../server/settings.js';
import { readDuration } from '../server/values.js';

/** Runs `keys add NAME`, `keys list` or `keys revoke NAME`. @throws Refusal */
export async function keys(operands: readonly string[], settings: Settings): Promise<number> {
  const [action, ...names] = operands;
  const path = settings.find('keysFile')?.text ?? defaultKeysFile;
  const expires = settings.find('expires');
  if (expires !== undefined && action !== 'add') throw new Refusal(`flag ${expires.from} is only for \`keys add\`; leave it out`);
  switch (action) {
    case 'add':
      await add(path, oneName(action, names), expires && readDuration(expires));
      return 0;
    case 'revoke':
      await revoke(path, oneName(action, names));
      return 0;
    case 'list':
      if (names.length > 0) throw new Refusal('`keys list` takes no name; it lists all');
      await list(path);
      return 0;
    default:
      throw new Refusal('`keys` needs one of add NAME, list, revoke NAME');
  }
}

async function add(path: string, name: string, lifeMs: number | undefined): Promise<void> {
  if (!isKeyName(name)) throw new Refusal('the name of a key must be 1 to 100 printable characters without spaces around; choose another');
  if (isReservedName(name)) throw new Refusal(reservedName(name));
  const key = newApiKey();
  const now = Date.now();
  const made = { name, sha256: digestOfKey(key).toString('hex'), created: new Date(now).toISOString() };
  const stored = lifeMs === undefined ? made : { ...made, expires: new Date(now + lifeMs).toISOString() };
  await change(path, (present) => {
    if (present.some((other) => other.name === name)) {
      throw new Refusal(`there is a key named ${name} in ${path}; choose another name, or revoke that one first`);
    }
    return [...present, stored];
  });
  await print(`${key}\n`, `the key ${name} is in ${path}, but was shown to nobody; take it out with \`keys revoke ${name}\``);
  process.stderr.write(`${printable(`The digest of this key is in ${path} as ${name}; the key itself is shown this once.`)}\n`);
}

async function revoke(path: string, name: string): Promise<void> {
  const unknown = new Refusal(`there is no key named ${name} in ${path}; \`keys list\` shows all`);
  // Asked before, too: taking turns would make the folder.
  if (!existsSync(path)) throw unknown;
  await change(path, (present) => {
    const left = present.filter((key) => key.name !== name);
    if (left.length === present.length) throw unknown;
    return left;
  });
  process.stderr.write(`${printable(`${name} is revoked; a running server refuses it within 2 seconds.`)}\n`);
}

async function list(path: string): Promise<void> {
  const present = storedIn(path);
  const width = Math.max(...present.map(({ name }) => name.length));
  const now = Date.now();
  const lines = present.map(({ name, created, expires }) => {
    const end = expires === undefined ? 'never expires' : `${now < Date.parse(expires) ? 'expires' : 'expired'} ${expires}`;
    return `${name.padEnd(width)}  created ${created}  ${end}\n`;
  });
  await print(lines.join(''));
}

/** Puts other keys in place of those that are there, none of another `keys` command lost between. */
async function change(path: string, next: (present: readonly StoredKey[]) => readonly StoredKey[]): Promise<void> {
  try {
    const file = behindLinks(path);
    await withLock(file, () => replaceFile(file, formatKeysFile(next(storedIn(file, path)))));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal(`keys file ${path} cannot be written (${reasonOf(error)}); name another with --keys-file`);
  }
}

function storedIn(file: string, named = file): readonly StoredKey[] {
  return existsSync(file) ? readKeysFile(file, named) : [];
}

function oneName(action: string, names: readonly string[]): string {
  const [name] = names;
  if (name === undefined || names.length > 1) throw new Refusal(`\`keys ${action}\` needs one NAME; put it in quotes where it has spaces`);
  return name;
}
