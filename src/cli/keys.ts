/** The `keys` command: adds, lists and revokes the keys of the keys file. */
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
    if (name !== undefined) refuse('`keys list` takes no name; it lists all');
    const stored = readKeysIfThere(path);
    if (stored.length > 0) return print(linesOf(stored));
    const lack = existsSync(path) ? `${path} holds no keys` : `there is no keys file ${path}`;
    return printNotice(`${lack}; make a key with \`${program} keys add NAME\``);
  }

  if (action !== 'add' && action !== 'revoke')
    refuse(
      '`keys` needs one of add NAME, list, revoke NAME' +
        (action === undefined
          ? ''
          : `, not ${quoteWord(action)}${suggestion(action, ['add', 'list', 'revoke'])}`),
    );
  if (name === undefined || more.length > 0)
    refuse(`\`keys ${action}\` needs one NAME; put it in quotes where it has spaces`);

  return action === 'revoke'
    ? revoke(path, name)
    : add(path, name, expires && readDuration(expires));
};

/** Makes a key that lives so long, undefined for ever, and prints it. */
async function add(path: string, name: string, lifeMs: number | undefined) {
  checkKeyName(name);
  // Names of different bytes would be one name.
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
        `there is a key named ${name} in ${path}; choose another name, or revoke that one first`,
      );
    return [...present, { name: name.normalize(), sha256, created, expires }];
  });

  const loss = `the key ${name} is in ${path}, but was shown to nobody`;
  await print([key], `${loss}; take it out with \`${program} keys revoke ${name}\``);
  printNotice(
    `The digest of this key is in ${path} as ${name}; the key itself is shown this once.`,
  );
}

async function revoke(path: string, name: string) {
  // The name is looked for before `changeKeysFile`, which would make the folder of a missing file.
  if (readKeysIfThere(path).every((key) => !isSameName(key.name, name)))
    refuse(
      `there is no key named ${quoteWord(name)} in ${path}; \`${program} keys list\` shows all`,
    );

  await changeKeysFile(path, (present) => present.filter((key) => !isSameName(key.name, name)));
  printNotice(`${name} is revoked; a running server refuses it within 2 seconds.`);
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
