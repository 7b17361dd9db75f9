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
import { countOf, print, printNotice, program, quote, quoteWord, refuse } from './output.js';
import { readDuration } from './setting-values.js';
import type { Run } from './settings.js';
import { suggestion } from './suggestion.js';
import { tableLines } from './table.js';

/** The most keys whose names are compared with a name that is not found. */
const maxCompared = 1_000;

/**
 * Runs `keys add`, `keys list` or `keys revoke`.
 *
 * @throws Refusal
 */
export const run: Run = async (settings, [action, name, ...more]) => {
  const path = settings.get('--keys-file', defaultKeysPath).text;
  const expires = settings.find('--expires');
  const json = settings.find('--json');
  for (const [setting, only] of [
    [expires, 'add'],
    [json, 'list'],
  ] as const)
    if (setting !== undefined && action !== only)
      refuse(`flag ${setting.from} is only for \`keys ${only}\`; leave it out`);

  if (action === 'list') {
    if (name !== undefined) refuse('`keys list` takes no name; it lists all keys');
    return list(path, json !== undefined);
  }

  if (action !== 'add' && action !== 'revoke')
    refuse(
      '`keys` needs one of add NAME, list, revoke NAME' +
        (action === undefined ? '' : `, not ${quoteWord(action)}${actionHint(action)}`),
    );
  if (name === undefined || more.length > 0)
    refuse(`\`keys ${action}\` needs one NAME; quote a name with spaces`);

  return action === 'revoke'
    ? revoke(path, name)
    : add(path, name, expires && readDuration(expires));
};

/** Words that other programs have for an action. */
const otherActions: ReadonlyMap<string, string> = new Map([
  ['create', 'add'],
  ['new', 'add'],
  ['ls', 'list'],
  ['show', 'list'],
  ['delete', 'revoke'],
  ['rm', 'revoke'],
]);

/** Returns the hint of the message about an unknown action. */
function actionHint(action: string): string {
  const other = otherActions.get(action.toLowerCase());
  return other === undefined
    ? suggestion(action, ['add', 'list', 'revoke'], '')
    : `; did you mean ${other}?`;
}

/** Returns a command for a message, with the keys file unless it is the default. */
function keysCommand(action: string, path: string): string {
  return `\`${program} keys ${action}${path === defaultKeysPath ? '' : ' --keys-file FILE'}\``;
}

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
  const stored = readKeysIfThere(path);
  if (stored.every((key) => !isSameName(key.name, name))) {
    const names = stored.length > maxCompared ? [] : stored.map((key) => quoteWord(key.name));
    const hint = suggestion(name, names, `; ${keysCommand('list', path)} prints all names`);
    refuse(`${path} has no key named ${quoteWord(name)}${hint}`);
  }

  await changeKeysFile(path, (present) => present.filter((key) => !isSameName(key.name, name)));
  printNotice(`${name} is revoked; running servers reject it within 2 s`);
}

/** Prints the keys as a table, or as JSON for programs. */
async function list(path: string, isJson: boolean): Promise<void> {
  const stored = readKeysIfThere(path);
  if (isJson) return print([jsonOf(stored)]);
  if (stored.length > 0) return print(tableLines([heading, ...rowsOf(stored, Date.now())]));

  const problem = existsSync(path) ? `${path} has no keys` : `the keys file ${path} does not exist`;
  printNotice(`${problem}; make a key with ${keysCommand('add NAME', path)}`);
}

/** Returns a JSON array in which `expires` is null for a key that never expires. */
function jsonOf(stored: readonly StoredKey[]): string {
  return JSON.stringify(
    stored.map(({ name, created, expires = null }) => ({ name, created, expires })),
  );
}

const heading = ['NAME', 'CREATED', 'EXPIRES'];

function rowsOf(stored: readonly StoredKey[], now: number): readonly (readonly string[])[] {
  return stored.map(({ name, created, expires }) => [
    name,
    new Date(created).toISOString().slice(0, 10),
    expires === undefined ? 'never' : expiryWords(Date.parse(expires) - now),
  ]);
}

/** The units of an expiry, and the least number of milliseconds for which each is used. */
const units = [
  { unit: 'day', ms: 86_400_000, least: 2 * 86_400_000 },
  { unit: 'hour', ms: 3_600_000, least: 2 * 3_600_000 },
  { unit: 'minute', ms: 60_000, least: 2 * 60_000 },
  { unit: 'second', ms: 1_000, least: 0 },
] as const;

/** Returns `in 3 days`, or `expired 2 hours ago` for a time that is over. */
function expiryWords(msLeft: number): string {
  // Rounded to whole seconds, so that a key of 90 days that was just made has 90 days.
  const ms = Math.round(Math.abs(msLeft) / 1_000) * 1_000;
  const { unit, ms: unitMs } = units.find(({ least }) => ms >= least) ?? units[3];
  const time = countOf(Math.round(ms / unitMs), unit);
  return msLeft > 0 ? `in ${time}` : `expired ${time} ago`;
}
