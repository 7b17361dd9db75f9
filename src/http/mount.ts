/** The path at which a framework has mounted the petstore (C56, C58). */
import { splitTarget } from '../request.js';

/** A request on which a framework may have noted where it mounted us. */
export interface MountedRequest {
  readonly url?: string | undefined;
  /** The path of the mount, as Express writes it. */
  readonly baseUrl?: unknown;
  /** The target as the client sent it: `url` is what follows the path of the mount. */
  readonly originalUrl?: unknown;
}

/** Where the petstore is mounted. */
export interface Mount {
  /** Undefined at the root. */
  readonly mountPath: string | undefined;
  /** True if the client asked for the mount path itself, without a slash behind it (C58). */
  readonly lacksSlash: boolean;
}

const root: Mount = { mountPath: undefined, lacksSlash: false };

/**
 * Returns where a framework has mounted the petstore. Frameworks cut the path of the mount off
 * `url`, so what `originalUrl` has in front of `url` is that path, also across several frameworks.
 * Only Express writes `baseUrl`, which counts if it is longer.
 */
export function mountOf({ url = '', baseUrl, originalUrl }: MountedRequest): Mount {
  // The usual case: nobody has mounted anything.
  const isAtRoot = baseUrl === undefined || baseUrl === '';
  if (isAtRoot && (originalUrl === undefined || originalUrl === url)) return root;

  const path = splitTarget(url).path;
  const original = typeof originalUrl === 'string' ? splitTarget(originalUrl).path : undefined;
  // To a client that asks for the mount path itself, frameworks give `/` as the rest of it.
  const lacksSlash = path === '/' && original !== undefined && !original.endsWith('/');
  const cutOff =
    original?.endsWith(path) === true ? original.slice(0, original.length - path.length) : '';

  const derived = lacksSlash ? plainPath(original) : plainPath(cutOff);
  // Mocks have the whole path as `baseUrl`, though nothing of it was cut off.
  const isMount = original === undefined || baseUrl !== original;
  const said = isMount ? plainPath(baseUrl) : undefined;
  const mountPath = (said?.length ?? 0) > (derived?.length ?? 0) ? said : derived;
  return { mountPath, lacksSlash: lacksSlash && mountPath !== undefined };
}

/**
 * Returns a path that may stand in front of links. A client may have made it, and `//host` would
 * lead elsewhere: undefined if it is not a plain path.
 */
export function plainPath(path: unknown): string | undefined {
  return typeof path === 'string' && /^(?:\/[\w.~!$&'()*+,;=:@%-]+)+$/.test(path)
    ? path
    : undefined;
}
