/** The options of `createPetstore`, their defaults and ranges; and checks of options elsewhere. */
import { inspect } from 'node:util';
import { digestOfKey, KeyRing, type VerifyKey } from './auth.js';
import type { Log } from './log.js';
import type { Plugin } from './plugin.js';
import type { PetStorage } from './storage.js';

/** How a petstore is to be. */
export interface PetstoreOptions {
  /** API keys of visible ASCII; or a function that names the key that a token is. */
  readonly keys: readonly string[] | VerifyKey;
  /**
   * Open; the petstore closes it, unless `createPetstore` throws. @defaultValue `memoryStorage()`
   */
  readonly storage?: PetStorage;
  /** Milliseconds since the epoch. @defaultValue `Date.now` */
  readonly clock?: () => number;
  /** Called in this order. */
  readonly plugins?: readonly Plugin[];
  /** @defaultValue silence */
  readonly log?: Log;
  /** The longest body, from 1 byte to `largestBodyBytes`. @defaultValue 65536 */
  readonly maxBodyBytes?: number;
  /**
   * Absolute address of the production deployment, `/v1` included: the path of links (C56), and for
   * the document.
   */
  readonly baseUrl?: string;
  /** That of the staging deployment, for the OpenAPI document alone. */
  readonly stagingBaseUrl?: string;
}

/** The most that `maxBodyBytes` may be, 16 MiB: one such animal fills a storage's queue. */
export const largestBodyBytes = 2 ** 24;
const known = [
  'keys',
  'storage',
  'clock',
  'plugins',
  'log',
  'maxBodyBytes',
  'baseUrl',
  'stagingBaseUrl',
] as const;

/**
 * Checks options and fills in defaults; `makeStorage` makes the storage where none is given.
 * @throws TypeError that names an option and its rule.
 */
export function resolveOptions(options: PetstoreOptions, makeStorage: () => PetStorage) {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('createPetstore needs options: keys at least');
  checkNames('option', options, known);
  const {
    clock: given = Date.now,
    plugins = [],
    log = () => undefined,
    maxBodyBytes = 65_536,
  } = options;
  const { keys, storage = makeStorage(), baseUrl, stagingBaseUrl } = options;
  check('clock', typeof given === 'function', 'be a function that answers milliseconds');
  const clock = checkedClock(given);
  check('log', typeof log === 'function', 'be a function');
  const arePlugins =
    Array.isArray(plugins) && plugins.every((plugin) => typeof plugin === 'function');
  check('plugins', arePlugins, 'be an array of functions');
  const isSize =
    Number.isInteger(maxBodyBytes) && maxBodyBytes >= 1 && maxBodyBytes <= largestBodyBytes;
  check('maxBodyBytes', isSize, `be an integer from 1 to ${largestBodyBytes}`);
  check('baseUrl', isUrl(baseUrl), urlRule);
  check('stagingBaseUrl', isUrl(stagingBaseUrl), urlRule);
  check('storage', !(storage instanceof Promise), 'be open: await it first');
  for (const method of ['insert', 'get', 'list', 'close'] as const)
    check(
      'storage',
      typeof storage?.[method] === 'function',
      `be a PetStorage; it has no method ${method}`,
    );
  const basePath = baseUrl && new URL(baseUrl).pathname.replace(/\/+$/, '');
  const baseUrls = [baseUrl, stagingBaseUrl].filter((url) => url !== undefined);
  return {
    verifyKey: resolveKeys(keys, clock),
    storage,
    clock,
    plugins,
    log,
    maxBodyBytes,
    basePath,
    baseUrls,
  };
}

const urlRule = 'be an absolute http or https URL';

function isUrl(url: unknown): boolean {
  return (
    url === undefined || (typeof url === 'string' && URL.canParse(url) && /^https?:\/\//i.test(url))
  );
}

function check(name: keyof PetstoreOptions, isRight: boolean, rule: string): void {
  if (!isRight) throw new TypeError(`option ${name} must ${rule}`);
}

function resolveKeys(keys: PetstoreOptions['keys'], clock: () => number): VerifyKey {
  if (typeof keys === 'function') return keys;
  check(
    'keys',
    Array.isArray(keys) && keys.length > 0,
    'hold at least one API key, or be a function',
  );
  const areKeys = keys.every((key) => typeof key === 'string' && /^[\x21-\x7e]+$/.test(key));
  check('keys', areKeys, 'hold texts of visible ASCII, without spaces');
  const entries = keys.map((key, index) => ({
    name: `key-${index + 1}`,
    digest: digestOfKey(key),
  }));
  const ring = new KeyRing(entries, clock);
  return ring.verify.bind(ring);
}

/** @throws TypeError for an unknown option. */
export function checkNames<Given extends object>(
  what: string,
  given: Given,
  known: readonly (keyof Given)[],
): void {
  const name = Object.keys(given).find((each) => !known.some((one) => one === each));
  if (name !== undefined)
    throw new TypeError(`${what} ${name} is unknown; known are ${known.join(', ')}`);
}

/**
 * A clock whose answers fit a storage file and RFC 3339: it throws a TypeError where another is
 * read.
 */
export function checkedClock(clock: () => number): () => number {
  // The machine's own is right, and is read at each request.
  if (clock === Date.now) return clock;
  return () => {
    const now = clock();
    // Up to the year 10000.
    if (typeof now === 'number' && now >= 0 && now < 253_402_300_800_000) return now;
    throw new TypeError(
      `the clock must answer milliseconds since 1970, up to the year 9999, not ${inspect(now)}`,
    );
  };
}
