/** The options of `createPetstore`, their defaults and ranges, and checks of options elsewhere. */
import { performance } from 'node:perf_hooks';
import { inspect } from 'node:util';
import { digestOfKey, KeyRing, type VerifyKey } from './auth.js';
import { safeLog, type Log } from './log.js';
import type { Plugin } from './plugin.js';
import type { PetStorage } from './storage.js';

/** How a petstore is to be. */
export interface PetstoreOptions {
  /** API keys of visible ASCII; or a function that names the key that a token is. */
  readonly keys: readonly string[] | VerifyKey;

  /**
   * Open; the petstore closes it, unless `createPetstore` throws.
   * @defaultValue `memoryStorage()`
   */
  readonly storage?: PetStorage;

  /**
   * Milliseconds since the epoch. It counts the 24 hours of idempotency keys too (C73).
   * @defaultValue `Date.now`, and for idempotency keys a clock that nobody sets
   */
  readonly clock?: () => number;
  /** Called in this order. */
  readonly plugins?: readonly Plugin[];
  /** @defaultValue silence */
  readonly log?: Log;

  /**
   * The longest body, from 1 byte to `largestBodyBytes`.
   * @defaultValue 65536
   */
  readonly maxBodyBytes?: number;

  /**
   * Absolute http or https address of the production deployment, `/v1` included, without user,
   * password, query and fragment. Its path begins links (C56); the OpenAPI document lists it.
   */
  readonly baseUrl?: string;
  /** That of the staging deployment, for the OpenAPI document alone. */
  readonly stagingBaseUrl?: string;
}

/** Options that were checked, with defaults for those that were left out. */
export interface ResolvedOptions {
  /** Names the key that a token is: one of `keys`, or whatever the caller's function says. */
  readonly verifyKey: VerifyKey;
  /** Open. */
  readonly storage: PetStorage;
  /** Milliseconds since the epoch, up to the year 9999; throws a TypeError for anything else. */
  readonly clock: () => number;
  /** The clock for idempotency keys (C73), of the same range. */
  readonly keyClock: () => number;
  /** In the order in which they are called. */
  readonly plugins: readonly Plugin[];
  /** Never throws. */
  readonly log: Log;
  /** The longest body in bytes. */
  readonly maxBodyBytes: number;
  /** The path of `baseUrl` without a slash at its end; undefined where that was left out. */
  readonly basePath: string | undefined;
  /** The addresses for the OpenAPI document, production first; those that were given. */
  readonly baseUrls: readonly string[];
}

/** The machine's clock, also after a test has replaced `Date` by a fake one (C68). */
export const machineClock = Date.now;

/** The most that `maxBodyBytes` may be, 16 MiB: one such animal fills a storage's queue. */
export const largestBodyBytes = 2 ** 24;

/**
 * Checks options and fills in defaults; `makeStorage` makes the storage where none is given.
 * @throws TypeError that names an option and its rule.
 */
export function resolveOptions(
  options: PetstoreOptions,
  makeStorage: () => PetStorage,
): ResolvedOptions {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('createPetstore needs options: keys at least');
  checkNames('option', options, {
    keys: true,
    storage: true,
    clock: true,
    plugins: true,
    log: true,
    maxBodyBytes: true,
    baseUrl: true,
    stagingBaseUrl: true,
  });

  const { keys, baseUrl, stagingBaseUrl, storage = makeStorage(), plugins = [] } = options;
  const { clock = machineClock, log = () => undefined, maxBodyBytes = 65_536 } = options;

  check('clock', typeof clock === 'function', 'be a function that answers milliseconds');
  check('log', typeof log === 'function', 'be a function');

  const areFunctions =
    Array.isArray(plugins) && plugins.every((each) => typeof each === 'function');
  check('plugins', areFunctions, 'be an array of functions');

  const isSize =
    Number.isInteger(maxBodyBytes) && maxBodyBytes >= 1 && maxBodyBytes <= largestBodyBytes;
  check('maxBodyBytes', isSize, `be an integer from 1 to ${largestBodyBytes}`);

  for (const name of ['baseUrl', 'stagingBaseUrl'] as const)
    check(name, options[name] === undefined || isBaseUrl(options[name]), `be ${baseUrlRule}`);

  check('storage', !(storage instanceof Promise), 'be open: await it first');
  for (const method of ['insert', 'get', 'list', 'close'] as const) {
    const isMethod = typeof storage?.[method] === 'function';
    check('storage', isMethod, `be a PetStorage; it has no method ${method}`);
  }

  const safeClock = checkedClock(clock);
  const isDefault = clock === machineClock;
  const keyClock = isDefault ? (storage.keyClock ?? steadyClock(machineClock())) : safeClock;
  return {
    verifyKey: resolveKeys(keys, safeClock),
    storage,
    clock: safeClock,
    keyClock: checkedClock(keyClock),
    plugins,
    log: safeLog(log),
    maxBodyBytes,
    basePath: baseUrl && new URL(baseUrl).pathname.replace(/\/+$/, ''),
    baseUrls: [baseUrl, stagingBaseUrl].filter((url) => url !== undefined),
  };
}

/** The rule of a base URL, for messages: it is public (C56), so it must not hold a password. */
export const baseUrlRule =
  'an absolute URL of http or https such as https://api.example.com/v1, ' +
  'without user, password, query and fragment';

/** The characters of a host and a port, and those of a path, or letters of any script. */
const baseUrlForm =
  /^https?:\/\/[\p{L}\p{M}\p{N}.:_[\]~%-]+(?:\/[\p{L}\p{M}\p{N}\-._~!$&'()*+,;=:@%/]*)?$/iu;

/** True if the value is an address that the OpenAPI document can show as it stands. */
export function isBaseUrl(url: unknown): url is string {
  return typeof url === 'string' && baseUrlForm.test(url) && URL.canParse(url);
}

function check(name: keyof PetstoreOptions, isRight: boolean, rule: string): void {
  if (!isRight) throw new TypeError(`option ${name} must ${rule}`);
}

function resolveKeys(keys: PetstoreOptions['keys'], clock: () => number): VerifyKey {
  if (typeof keys === 'function') return keys;

  const isList = Array.isArray(keys) && keys.length > 0;
  check('keys', isList, 'hold at least one API key, or be a function');

  const areKeys = keys.every((key) => typeof key === 'string' && /^[\x21-\x7e]+$/.test(key));
  check('keys', areKeys, 'hold texts of visible ASCII, without spaces');

  const entries = keys.map((key, index) => ({
    name: `key-${index + 1}`,
    digest: digestOfKey(key),
  }));
  const ring = new KeyRing(entries, clock);
  return ring.verify.bind(ring);
}

/**
 * Checks that each given option is known. `known` must name every option of the type, which the
 * compiler checks. Messages call an option `what`.
 * @throws TypeError that names an unknown option
 */
export function checkNames<Given extends object>(
  what: string,
  given: Given,
  known: Readonly<Record<keyof Given, true>>,
): void {
  const name = Object.keys(given).find((each) => !Object.hasOwn(known, each));

  if (name !== undefined)
    throw new TypeError(`${what} ${name} is unknown; known are ${Object.keys(known).join(', ')}`);
}

/**
 * Returns a clock that begins at `start`, in milliseconds since the epoch, and goes on evenly
 * whatever happens to the machine's clock.
 */
export function steadyClock(start: number): () => number {
  const startedAt = performance.now();
  return () => Math.floor(start + performance.now() - startedAt);
}

/** A clock whose answers fit a storage file and RFC 3339; it throws a TypeError for others. */
export function checkedClock(clock: () => number): () => number {
  // The machine's own is right, and is read at each request.
  if (clock === machineClock) return clock;

  return () => {
    const now = clock();

    // Up to the year 10000.
    if (typeof now === 'number' && now >= 0 && now < 253_402_300_800_000) return now;
    throw new TypeError(
      `the clock must answer milliseconds since 1970, up to the year 9999, not ${inspect(now)}`,
    );
  };
}
