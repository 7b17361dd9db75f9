/**
 * The options of `createPetstore`: defaults, ranges, and refusal of what is unknown or impossible. Reads no
 * environment.
 */
import { digestOfKey, KeyRing, type VerifyKey } from './auth.js';
import { checkNames } from './errors.js';
import type { Log } from './errors.js';
import type { Plugin } from './plugin.js';
import type { PetStorage } from './storage.js';
import { memoryStorage } from './memory/index.js';

/** How a petstore is to be. */
export interface PetstoreOptions {
  /**
   * The API keys' texts, of visible ASCII; or a function that names a token's key, for those who verify their own
   * way.
   */
  readonly keys: readonly string[] | VerifyKey;
  /**
   * Where the animals are kept, open: `storage: await fileStorage(path)`. The petstore closes it when it closes; where
   * `createPetstore` throws, it is still the caller's to close.
   * @defaultValue `memoryStorage()`
   */
  readonly storage?: PetStorage;
  /**
   * Milliseconds since the epoch.
   * @defaultValue `Date.now`
   */
  readonly clock?: () => number;
  /** Called in this order. */
  readonly plugins?: readonly Plugin[];
  /** @defaultValue silence */
  readonly log?: Log;
  /**
   * The longest body that is read, from 1 byte to `largestBodyBytes`, 16 MiB.
   * @defaultValue 65536
   */
  readonly maxBodyBytes?: number;
  /**
   * Absolute address of the production deployment, `/v1` included, for the OpenAPI document; links in answers begin
   * with its path (C56).
   */
  readonly baseUrl?: string;
  /** The same of the staging deployment. */
  readonly stagingBaseUrl?: string;
}

/** Options in the form in which the petstore uses them. */
export interface ResolvedOptions {
  readonly verifyKey: VerifyKey;
  readonly storage: PetStorage;
  readonly clock: () => number;
  readonly plugins: readonly Plugin[];
  readonly log: Log;
  readonly maxBodyBytes: number;
  /** The path of the production address, without a slash at the end; undefined without one. */
  readonly basePath: string | undefined;
  readonly baseUrls: readonly string[];
}

/** The most that `maxBodyBytes` may allow; whatever is smaller fits into a storage. */
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
] satisfies (keyof PetstoreOptions)[];

/**
 * Fills in the defaults; the caller's object stays as it is.
 * @throws TypeError that names the option and its rule.
 */
export function resolveOptions(options: PetstoreOptions): ResolvedOptions {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('createPetstore needs options, keys at least');
  checkNames('option', options, known);
  const { clock = Date.now, plugins = [], log = () => undefined, maxBodyBytes = 65_536 } = options;
  if (typeof clock !== 'function') throw new TypeError('option clock must be a function that answers milliseconds');
  if (typeof log !== 'function') throw new TypeError('option log must be a function');
  if (!Array.isArray(plugins) || plugins.some((plugin) => typeof plugin !== 'function')) {
    throw new TypeError('option plugins must be an array of functions');
  }
  if (!Number.isInteger(maxBodyBytes) || maxBodyBytes < 1 || maxBodyBytes > largestBodyBytes) {
    throw new TypeError(`option maxBodyBytes must be an integer from 1 to ${largestBodyBytes}`);
  }
  const baseUrl = checkUrl('baseUrl', options.baseUrl);
  const baseUrls = [baseUrl, checkUrl('stagingBaseUrl', options.stagingBaseUrl)];
  return {
    verifyKey: resolveKeys(options.keys, clock),
    storage: resolveStorage(options.storage),
    clock,
    plugins,
    log,
    maxBodyBytes,
    basePath: baseUrl && new URL(baseUrl).pathname.replace(/\/+$/, ''),
    baseUrls: baseUrls.filter((url) => url !== undefined),
  };
}

function resolveKeys(keys: PetstoreOptions['keys'], clock: () => number): VerifyKey {
  if (typeof keys === 'function') return keys;
  if (!Array.isArray(keys) || keys.length === 0)
    throw new TypeError('option keys must hold at least one API key, or be a function');
  if (keys.some((key) => typeof key !== 'string' || !/^[\x21-\x7e]+$/.test(key))) {
    throw new TypeError('option keys must hold texts of visible ASCII, without spaces');
  }
  const ring = new KeyRing(
    keys.map((key: string, index) => ({ name: `key-${index + 1}`, digest: digestOfKey(key) })),
    clock,
  );
  return ring.verify.bind(ring);
}

function resolveStorage(storage: PetstoreOptions['storage']): PetStorage {
  if (storage === undefined) return memoryStorage();
  if (storage instanceof Promise) throw new TypeError('option storage must be open: await it first');
  for (const method of ['insert', 'get', 'list', 'close'] as const) {
    if (typeof storage?.[method] !== 'function')
      throw new TypeError(`option storage must be a PetStorage; it has no method ${method}`);
  }
  return storage;
}

function checkUrl(name: string, url: string | undefined): string | undefined {
  if (url === undefined) return undefined;
  if (typeof url !== 'string' || !URL.canParse(url) || !/^https?:\/\//i.test(url)) {
    throw new TypeError(`option ${name} must be an absolute http or https URL`);
  }
  return url;
}
