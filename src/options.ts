/** The options of `createPetstore`: their defaults, ranges and checks. */
import { digestOfKey, KeyRing, type VerifyKey } from './auth.js';
import { checkedClock, machineClock, SettableClock, steadyClock } from './clock.js';
import { safeLog, type Log } from './log.js';
import type { Plugin } from './plugin.js';
import type { PetStorage } from './storage.js';

/** The options of a petstore. */
export interface PetstoreOptions {
  /** The API keys, of visible ASCII; or a function that returns the name of a token's key. */
  readonly keys: readonly string[] | VerifyKey;

  /**
   * An open storage. The petstore closes it, unless `createPetstore` throws.
   * @defaultValue `memoryStorage()`
   */
  readonly storage?: PetStorage;

  /**
   * Returns milliseconds since the epoch. Idempotency keys expire by it too (C73).
   * @defaultValue `Date.now`; for idempotency keys the `keyClock` of the storage
   */
  readonly clock?: () => number;
  /** The plugins, in the order in which they are called. */
  readonly plugins?: readonly Plugin[];
  /** @defaultValue no log */
  readonly log?: Log;

  /**
   * The longest request body in bytes, from 1 to `largestBodyBytes`.
   * @defaultValue 65536
   */
  readonly maxBodyBytes?: number;

  /**
   * Gives each API key's name a store of its own, with the seed of `storage`, which must be in
   * memory (C88). Each store starts the plugins anew.
   * @defaultValue false
   */
  readonly isolate?: boolean;

  /**
   * The public base URL in production, including `/v1`, without user, password, query and fragment.
   * Its path prefixes links (C56), and the OpenAPI document lists it.
   */
  readonly baseUrl?: string;
  /** The public base URL in staging, for the OpenAPI document. */
  readonly stagingBaseUrl?: string;
}

/** The checked options, with defaults for those that were omitted. */
export interface ResolvedOptions {
  readonly verifyKey: VerifyKey;
  readonly storage: PetStorage;
  /** Returns milliseconds since the epoch, up to the year 9999. @throws TypeError */
  readonly clock: () => number;
  /** The clock of idempotency keys (C73), with the same range. */
  readonly keyClock: () => number;
  /** Sets both clocks; undefined returns to those of the options (C87). @throws TypeError */
  readonly setClock: (time: number | undefined) => void;
  readonly plugins: readonly Plugin[];
  /** Never throws. */
  readonly log: Log;
  readonly maxBodyBytes: number;
  readonly isolate: boolean;
  /** The path of `baseUrl` without a slash at its end; undefined if there is no `baseUrl`. */
  readonly basePath: string | undefined;
  /** The base URLs for the OpenAPI document without a slash at their end, production first. */
  readonly baseUrls: readonly string[];
}

/** The largest `maxBodyBytes`, 16 MiB, because pets of 32 MiB may wait to be stored. */
export const largestBodyBytes = 2 ** 24;

/**
 * Checks options and fills in defaults. `makeStorage` makes the default storage.
 * @throws TypeError that names an invalid option and its rule
 */
export function resolveOptions(
  options: PetstoreOptions,
  makeStorage: () => PetStorage,
): ResolvedOptions {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('createPetstore needs options, at least keys');
  checkNames('option', options, {
    keys: true,
    storage: true,
    clock: true,
    plugins: true,
    log: true,
    maxBodyBytes: true,
    isolate: true,
    baseUrl: true,
    stagingBaseUrl: true,
  });

  const { keys, baseUrl, stagingBaseUrl, storage = makeStorage(), plugins = [] } = options;
  const { clock = machineClock, log = () => undefined, maxBodyBytes = 65_536 } = options;
  const { isolate = false } = options;

  check('clock', typeof clock === 'function', 'be a function that returns milliseconds');
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

  check('isolate', typeof isolate === 'boolean', 'be true or false');
  const canIsolate = !isolate || typeof storage.fresh === 'function';
  check('isolate', canIsolate, 'be false, unless the storage is memoryStorage()');

  const mainClock = new SettableClock(checkedClock(clock));
  const isDefault = clock === machineClock;
  const ownKeyClock = isDefault ? (storage.keyClock ?? steadyClock(machineClock())) : clock;
  const keyClock = new SettableClock(checkedClock(ownKeyClock));
  return {
    verifyKey: resolveKeys(keys, mainClock),
    isolate,
    storage,
    clock: mainClock.now,
    keyClock: keyClock.now,
    setClock: (time) => {
      mainClock.set(time);
      keyClock.set(time);
    },
    plugins,
    log: safeLog(log),
    maxBodyBytes,
    basePath: baseUrl && withoutSlashAtEnd(new URL(baseUrl).pathname),
    baseUrls: [baseUrl, stagingBaseUrl].filter((url) => url !== undefined).map(withoutSlashAtEnd),
  };
}

/** Removes slashes at the end of a URL or path, because paths that begin with one follow. */
function withoutSlashAtEnd(url: string): string {
  return url.replace(/\/+$/, '');
}

/** Returns the options of an isolated store, with a storage and clocks of its own (C88). */
export function isolatedOptions(options: ResolvedOptions): ResolvedOptions {
  const { storage, clock, keyClock, verifyKey } = options;
  const clocks = [new SettableClock(clock), new SettableClock(keyClock)] as const;
  const [ownClock, ownKeyClock] = clocks;
  return {
    ...options,
    verifyKey: (token) => (ownClock.isSet ? verifyKey(token, ownClock.now) : verifyKey(token)),
    storage: storage.fresh?.() ?? storage,
    clock: ownClock.now,
    keyClock: ownKeyClock.now,
    setClock: (time) => {
      for (const each of clocks) each.set(time);
    },
  };
}

/** The rule of a base URL, for messages. It is public (C56), so it must not hold a password. */
export const baseUrlRule =
  'an absolute URL of http or https such as https://api.example.com/v1, ' +
  'without user, password, query and fragment, and with one slash before its path';

/**
 * A host with an optional port and path. Letters may be of any script. A path that begins with //
 * is not accepted, because a link to it would lead to another host.
 */
const baseUrlForm =
  /^https?:\/\/[\p{L}\p{M}\p{N}.:_[\]~%-]+(?:\/(?!\/)[\p{L}\p{M}\p{N}\-._~!$&'()*+,;=:@%/]*)?$/iu;

/** True if the value is a URL that the OpenAPI document may show. */
export function isBaseUrl(url: unknown): url is string {
  return typeof url === 'string' && baseUrlForm.test(url) && URL.canParse(url);
}

function check(name: keyof PetstoreOptions, isRight: boolean, rule: string): void {
  if (!isRight) throw new TypeError(`option ${name} must ${rule}`);
}

function resolveKeys(keys: PetstoreOptions['keys'], clock: SettableClock): VerifyKey {
  if (typeof keys === 'function')
    return (token, now = clock.isSet ? clock.now : undefined) =>
      now === undefined ? keys(token) : keys(token, now);

  const isList = Array.isArray(keys) && keys.length > 0;
  check('keys', isList, 'hold at least one API key, or be a function');

  const areKeys = keys.every((key) => typeof key === 'string' && /^[\x21-\x7e]+$/.test(key));
  check('keys', areKeys, 'be strings of visible ASCII, without spaces');

  const entries = keys.map((key, index) => ({
    name: `key-${index + 1}`,
    digest: digestOfKey(key),
  }));
  const ring = new KeyRing(entries, clock.now);
  return ring.verify.bind(ring);
}

/**
 * Checks that each given option is known. The compiler checks that `known` names every option of
 * the type. Messages call an option `what`.
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
