/** Implements the `keys` command, which adds, lists and revokes keys of the keys file. */
import { existsSync } from 'node:fs';
import { digestOfKey } from '../index.js';
import {
  changeKeysFile,
  checkKeyName,
  defaultKeysPath,
  isSameName,
  newApiKey,
  readKeysIfThere,
  type StoredKey,
} from './keys-file.js';
import { print, printNotice, program, quote, quoteWord, refuse } from './output.js';
import { readDuration, suggestion, type Run } from './settings.js';

/**
 * Runs `keys add`, `keys list` or `keys revoke`.
 *
 * @throws Refusal
 */
export const run: Run = async (settings, [action, name, ...more]) => {
  const path = settings.get('--keys-file', defaultKeysPath).text;
  const expires = settings.find('--expires');
  if (expires !== undefined && action !== 'add')
    refuse(`flag ${expires.from} is only for \`keys add\`; leave it out`);

  if (action === 'list') {
    if (name !== undefined) refuse('`keys list` takes no name; it lists all keys');
    const stored = readKeysIfThere(path);
    if (stored.length > 0) return print(linesOf(stored));
    const problem = existsSync(path)
      ? `${path} has no keys`
      : `the keys file ${path} does not exist`;
    return printNotice(`${problem}; make a key with \`${program} keys add NAME\``);
  }

  if (action !== 'add' && action !== 'revoke')
    refuse(
      '`keys` needs one of add NAME, list, revoke NAME' +
        (action === undefined
          ? ''
          : `, not ${quoteWord(action)}${suggestion(action, ['add', 'list', 'revoke'])}`),
    );
  if (name === undefined || more.length > 0)
    refuse(`\`keys ${action}\` needs one NAME; quote a name with spaces`);

  return action === 'revoke'
    ? revoke(path, name)
    : add(path, name, expires && readDuration(expires));
};

/** Makes a key and prints it. The key never expires if `lifeMs` is undefined. */
async function add(path: string, name: string, lifeMs: number | undefined) {
  checkKeyName(name);
  // Node replaces such bytes, so that different names would become the same.
  if (name.includes('\ufffd'))
    refuse(`NAME has bytes that are not UTF-8: ${quote(name)}; choose another name`);

  const key = newApiKey();
  const sha256 = digestOfKey(key).toString('hex');
  const now = Date.now();
  const created = new Date(now).toISOString();
  const expires = lifeMs === undefined ? undefined : new Date(now + lifeMs).toISOString();

  await changeKeysFile(path, (present) => {
    if (present.some((other) => isSameName(other.name, name)))
      refuse(
        `${path} already has a key named ${name}; choose another name, or revoke that key first`,
      );
    return [...present, { name: name.normalize(), sha256, created, expires }];
  });

  const loss = `the key ${name} is in ${path}, but was not printed`;
  await print([key], `${loss}; revoke it with \`${program} keys revoke ${name}\``);
  printNotice(`${path} has the digest of this key as ${name}; the key itself is printed only once`);
}

async function revoke(path: string, name: string) {
  // Checked before `changeKeysFile`, which would create the folder of a missing file.
  if (readKeysIfThere(path).every((key) => !isSameName(key.name, name)))
    refuse(
      `${path} has no key named ${quoteWord(name)}; \`${program} keys list\` prints all names`,
    );

  await changeKeysFile(path, (present) => present.filter((key) => !isSameName(key.name, name)));
  printNotice(`${name} is revoked; running servers reject it within 2 s`);
}

function linesOf(stored: readonly StoredKey[]): readonly string[] {
  const width = stored.reduce((most, { name }) => Math.max(most, name.length), 0);

  return stored.map(({ name, created, expires }) => {
    const isOver = expires !== undefined && Date.now() >= Date.parse(expires);
    const end =
      expires === undefined ? 'never expires' : `${isOver ? 'expired' : 'expires'} ${expires}`;
    return `${name.padEnd(width)}  created ${created}  ${end}`;
  });
}
