/** The keys file: names, digests and times of API keys, as JSON. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { codeOf, parseJson, reasonOf, type JsonValue } from '../index.js';
import { readRegularFile, replaceFile } from './files.js';
import { Refusal, program, quote, refuse } from './output.js';
import { timeOf } from './settings.js';

/** The keys file if no other is named. */
export const defaultKeysPath = 'data/keys.json';

/** The most keys of a file. Reading so many takes a quarter of a second. */
const maxKeys = 100_000;

/** The longest keys file in bytes. */
const maxBytes = 2 ** 25;

/** The most JSON values of a keys file: several times as many as `maxKeys` keys have. */
const maxValues = 2 ** 21;

/** A key of the keys file. Its times are texts that `timeOf` accepts. */
export interface StoredKey {
  readonly name: string;
  /** The SHA-256 of the key, in hexadecimal digits. */
  readonly sha256: string;
  readonly created: string;
  /** Undefined for a key that never expires. */
  readonly expires: string | undefined;
}

/** Makes a key, which nobody can guess. */
export const newApiKey = (): string => `psk_${randomBytes(32).toString('base64url')}`;

/**
 * Reads the keys file, which must exist.
 *
 * @throws Refusal if it is not a valid keys file
 */
export function readKeysFile(path: string): readonly StoredKey[] {
  try {
    const text = readRegularFile(path, maxBytes).toString('latin1');
    const file = membersOf(parseJson(text, maxValues), ['keys'], 'the file');
    const list = file.get('keys');
    if (!Array.isArray(list)) refuse('"keys" must be an array');
    if (list.length > maxKeys) refuse(`it has ${list.length} keys, which is over ${maxKeys}`);

    const keys = list.map(readKey);
    refuseEqualNames(keys);
    return keys;
  } catch (error) {
    // The reader of JSON ends its sentence with a full stop, and here the sentence goes on.
    const reason = reasonOf(error).replace(/\.$/, '');
    const hint = `mend it, make one with \`${program} keys add NAME\`, or name another`;
    const options = 'with --keys-file or PETSTORE_KEYS_FILE';
    refuse(`keys file ${path} cannot be used: ${reason}; ${hint} ${options}`);
  }
}

/** Returns the keys of the file; none if the file does not exist. */
export function readKeysIfThere(path: string): readonly StoredKey[] {
  return fs.existsSync(path) ? readKeysFile(path) : [];
}

/**
 * True if two names are the same text: `é` can be one character or two. People cannot tell such
 * names apart, so two keys must not have them.
 */
export function isSameName(name: string, other: string): boolean {
  return name.normalize() === other.normalize();
}

/** @throws Refusal if two keys have the same name */
function refuseEqualNames(keys: readonly StoredKey[]): void {
  const places = new Map<string, number>();

  keys.forEach(({ name }, index) => {
    const text = name.normalize();
    const other = places.get(text);
    if (other !== undefined)
      refuse(`the name ${quote(name)} stands twice, at key ${other + 1} and key ${index + 1}`);
    places.set(text, index);
  });
}

/**
 * Checks the name of a key of the file. The names of keys outside the file are refused, because
 * keys of one name share their idempotency keys.
 *
 * @param place Where the name stands, in front of the message.
 * @throws Refusal
 */
export function checkKeyName(name: string, place = ''): void {
  // Invisible characters would make two names look alike: controls, formats, fillers, variation
  // selectors, the empty Braille pattern, and every space but the ordinary one.
  if (!/^(?:[^\p{C}\p{Z}\p{DI}\u2800]| ){1,100}$/u.test(name) || name.trim() !== name)
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
  checkKeyName(name, `${place}: `);

  return {
    name,
    sha256: text('sha256', isDigest, '64 hexadecimal digits'),
    created: time('created'),
    expires: key.has('expires') ? time('expires') : undefined,
  };
}

/**
 * Returns the members of an object.
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
  if (unknown !== undefined) refuse(`${place} has an unknown member ${quote(unknown)}`);
  return value;
}

/** What to do if the file cannot be written, by the errno. */
const hints: Readonly<Record<string, string>> = {
  EACCES: 'run the command as a user who may write the file and its folder',
  EPERM: 'run the command as a user who may write the file and its folder',
  EROFS: 'the file system is read-only; mount it for writing',
  EBUSY: 'the file is mounted by itself and cannot be replaced; mount its folder in its place',
};

/**
 * Replaces the keys of the file by what `change` returns for them.
 *
 * @throws Refusal. The file is then as it was.
 */
export async function changeKeysFile(
  path: string,
  change: (present: readonly StoredKey[]) => readonly StoredKey[],
): Promise<void> {
  const makeText = () => {
    const keys = change(readKeysIfThere(path));
    const text = `${JSON.stringify({ keys }, undefined, 2)}\n`;
    if (keys.length > maxKeys || Buffer.byteLength(text) > maxBytes) {
      const bounds = `it takes ${maxKeys} keys and ${maxBytes} bytes`;
      refuse(`keys file ${path} is full: ${bounds}; revoke a key first`);
    }
    return text;
  };

  try {
    await replaceFile(path, makeText);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const hint = hints[codeOf(error) ?? ''] ?? 'name another with --keys-file';
    refuse(`keys file ${path} cannot be written (${reasonOf(error)}); ${hint}`);
  }
}
