/** Owns the form of the keys file: names, digests, times, never a key. Strict, so that no typing error opens a door. */
import { readFileSync } from 'node:fs';
import { parseJson, type JsonValue, type KeyEntry } from '../index.js';
import { reasonOf, Refusal } from './refusal.js';

/** Where keys are kept unless an option says otherwise, below the working folder. */
export const defaultKeysFile = 'data/keys.json';

/** The name of the key of `--dev`. */
export const devKeyName = 'dev';

/** The name of the key that stands at this place of PETSTORE_API_KEYS, counted from 1. */
export const environmentKeyName = (place: number): string => `env-${place}`;

/** A key as the file has it. */
export interface StoredKey {
  readonly name: string;
  /** SHA-256 of the key's text, in hexadecimal digits. */
  readonly sha256: string;
  /** ISO 8601. */
  readonly created: string;
  /** ISO 8601; absent for never. */
  readonly expires?: string;
}

/**
 * Reads a keys file.
 * @throws Refusal that names the file, as the operator did, and what is wrong with it.
 */
export function readKeysFile(path: string, named = path): readonly StoredKey[] {
  try {
    const file = members(parseJson(readFileSync(path, 'latin1')), ['keys']);
    const list = file.get('keys');
    if (!Array.isArray(list)) throw new Refusal('"keys" must be an array');
    const keys = list.map(readKey);
    const twice = keys.find(({ name }, index) => keys.findIndex((key) => key.name === name) < index);
    if (twice !== undefined) throw new Refusal(`the name ${JSON.stringify(twice.name)} stands twice`);
    return keys;
  } catch (error) {
    throw new Refusal(`keys file ${named} cannot be used: ${reasonOf(error)}`);
  }
}

/** The text of a keys file; not a byte string. */
export function formatKeysFile(keys: readonly StoredKey[]): string {
  return `${JSON.stringify({ keys }, undefined, 2)}\n`;
}

/** A stored key as a key ring takes it. */
export function keyEntryOf({ name, sha256, expires }: StoredKey): KeyEntry {
  const entry = { name, digest: Buffer.from(sha256, 'hex') };
  return expires === undefined ? entry : { ...entry, expiresAt: Date.parse(expires) };
}

/** Whether a text can name a key: it is printed in lists and logs, on one line. */
export function isKeyName(text: string): boolean {
  return /^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u.test(text) && text.trim() === text;
}

/** Whether a name is that of keys which are in no file; two of one name would share their idempotency keys. */
export function isReservedName(name: string): boolean {
  return name === devKeyName || /^env-[0-9]+$/.test(name);
}

/** Why a reserved name is refused, and the mend. */
export function reservedName(name: string): string {
  return `the name ${name} is reserved for keys of --dev and PETSTORE_API_KEYS; choose another`;
}

function readKey(value: JsonValue, index: number): StoredKey {
  const place = `key ${index + 1}`;
  const key = members(value, ['name', 'sha256', 'created', 'expires'], place);
  const [name, sha256, created, expires] = [key.get('name'), key.get('sha256'), key.get('created'), key.get('expires')];
  if (typeof name !== 'string' || !isKeyName(name)) throw new Refusal(`${place}: "name" must be a text of 1 to 100 printable characters`);
  if (isReservedName(name)) throw new Refusal(`${place}: ${reservedName(name)}`);
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/i.test(sha256)) throw new Refusal(`${place}: "sha256" must be 64 hexadecimal digits`);
  if (!isTime(created)) throw new Refusal(`${place}: "created" must be a time such as 2026-11-20T08:00:00Z`);
  if (expires === undefined) return { name, sha256, created };
  if (!isTime(expires)) throw new Refusal(`${place}: "expires" must be a time such as 2026-11-20T08:00:00Z, or be left out`);
  return { name, sha256, created, expires };
}

/** The members of an object that has no others: an unknown one may be a misspelt "expires". */
function members(value: JsonValue, known: readonly string[], place = 'the file'): ReadonlyMap<string, JsonValue> {
  if (!(value instanceof Map)) throw new Refusal(`${place} must be a JSON object`);
  const unknown = [...value.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Refusal(`${place} has an unknown member ${JSON.stringify(unknown)}`);
  return value;
}

/** A date, or a time that names its zone: without one it would mean something else on another machine. */
function isTime(value: JsonValue | undefined): value is string {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
  return typeof value === 'string' && form.test(value) && !Number.isNaN(Date.parse(value)) && isOfCalendar(value.slice(0, 10));
}

/** Date takes 31 February for 3 March. Asked without its time, for in UTC that may be of the day before or behind. */
function isOfCalendar(day: string): boolean {
  return new Date(day).toISOString().startsWith(day);
}
