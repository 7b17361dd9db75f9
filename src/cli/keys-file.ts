/** Reads and changes the keys file, which has the names, digests and times of API keys as JSON. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { codeOf, parseJson, type JsonValue } from '../index.js';
import { readRegularFile, replaceFile } from './files.js';
import { Refusal, plainReason, program, quote, refuse } from './output.js';
import { timeOf } from '../clock.js';

/** The default of `--keys-file`. */
export const defaultKeysPath = 'data/keys.json';

/** The most keys of a file. Reading 100,000 keys takes a quarter of a second. */
const maxKeys = 100_000;

/** The longest keys file in bytes. */
const maxBytes = 2 ** 25;

/** The most JSON values of a keys file, several times the values of `maxKeys` keys. */
const maxValues = 2 ** 21;

/** A key of the keys file. `timeOf` accepts its times. */
export interface StoredKey {
  readonly name: string;
  /** The SHA-256 digest of the key in hexadecimal. */
  readonly sha256: string;
  readonly created: string;
  /** Undefined if the key never expires. */
  readonly expires: string | undefined;
}

/** Returns a new random key. */
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
    if (list.length > maxKeys) refuse(`it has ${list.length} keys, more than ${maxKeys}`);

    const keys = list.map(readKey);
    refuseEqualNames(keys);
    return keys;
  } catch (error) {
    // The messages of `parseJson` end with a full stop.
    const reason = plainReason(error).replace(/\.$/, '');
    const create = `make it with \`${program} keys add NAME --keys-file FILE\``;
    const hint = codeOf(error) === 'ENOENT' ? create : 'fix the file';
    const options = 'or name another with --keys-file or PETSTORE_KEYS_FILE';
    refuse(`keys file ${path} cannot be used: ${reason}; ${hint}, ${options}`);
  }
}

/** Returns the keys of the file, or an empty array if the file does not exist. */
export function readKeysIfThere(path: string): readonly StoredKey[] {
  return fs.existsSync(path) ? readKeysFile(path) : [];
}

/** True if two names look the same, because Unicode can encode `é` as one character or as two. */
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
      refuse(`key ${other + 1} and key ${index + 1} have the same name ${quote(name)}`);
    places.set(text, index);
  });
}

/**
 * Checks the name of a key of the file. The names of keys outside the file are reserved, because
 * keys with the same name share their idempotency keys.
 *
 * @param place The beginning of the message.
 * @throws Refusal
 */
export function checkKeyName(name: string, place = ''): void {
  // Invisible characters would make two names look alike: controls, formats, fillers, variation
  // selectors, the empty Braille pattern, and every space except U+0020.
  if (!/^(?:[^\p{C}\p{Z}\p{DI}\u2800]| ){1,100}$/u.test(name) || name.trim() !== name)
    refuse(
      `${place}a name must be 1 to 100 printable characters without a space at its ends; ` +
        'choose another',
    );

  const owners = 'keys of --dev and PETSTORE_API_KEYS';
  if (/^(dev|env-[0-9]+)$/.test(name))
    refuse(`${place}the name ${name} is reserved for ${owners}; choose another`);
}

/**
 * Parses a key of the list.
 *
 * @throws Refusal
 */
function readKey(value: JsonValue, index: number): StoredKey {
  const place = `key ${index + 1}`;
  const key = membersOf(value, ['name', 'sha256', 'created', 'expires'], place);

  const text = (member: string, isValid: (text: string) => boolean, rule: string) => {
    const found = key.get(member);
    if (typeof found === 'string' && isValid(found)) return found;

    const must = found === undefined ? 'is missing; it must' : 'must';
    refuse(`${place}: "${member}" ${must} be ${rule}`);
  };
  const time = (member: string) =>
    text(member, (found) => !Number.isNaN(timeOf(found)), 'a time such as 2026-11-20T08:00:00Z');
  const isDigest = (found: string) => /^[0-9a-f]{64}$/i.test(found);

  const name = text('name', () => true, 'a string');
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
 * @throws Refusal if a member is unknown: with a misspelt `expires`, a key would never expire
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

const permissionDenied =
  'permission denied; run the command as a user who may write the file and its folder';

/** The reasons why the file cannot be written, each with its fix, by errno. */
const reasons: Readonly<Record<string, string>> = {
  EACCES: permissionDenied,
  EPERM: permissionDenied,
  EROFS: 'the file system is read-only; mount it for writing',
  EBUSY: 'it is mounted by itself and cannot be replaced; mount its folder instead',
};

/**
 * Replaces the keys of the file with the result of `change`.
 *
 * @throws Refusal; the file is then unchanged
 */
export async function changeKeysFile(
  path: string,
  change: (present: readonly StoredKey[]) => readonly StoredKey[],
): Promise<void> {
  const makeText = () => {
    const keys = change(readKeysIfThere(path));
    const text = `${JSON.stringify({ keys }, undefined, 2)}\n`;
    if (keys.length > maxKeys || Buffer.byteLength(text) > maxBytes) {
      const limits = `its limits are ${maxKeys} keys and ${maxBytes} bytes`;
      refuse(`keys file ${path} is full: ${limits}; revoke a key first`);
    }
    return text;
  };

  try {
    await replaceFile(path, makeText);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const otherReason = `${plainReason(error)}; name another file with --keys-file`;
    refuse(`keys file ${path} cannot be written: ${reasons[codeOf(error) ?? ''] ?? otherReason}`);
  }
}
