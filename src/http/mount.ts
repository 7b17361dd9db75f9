/** Finds the path at which a framework has mounted the petstore (C56, C58). */
import { splitTarget } from '../request.js';

/** A request to which a framework may have added the mount path. */
export interface MountedRequest {
  readonly url?: string | undefined;
  /** The mount path, as Express sets it. */
  readonly baseUrl?: unknown;
  /** The target as the client sent it; `url` is the rest after the mount path. */
  readonly originalUrl?: unknown;
}

/** The result of `mountOf`. */
export interface Mount {
  /** Undefined at the root. */
  readonly mountPath: string | undefined;
  /** True if the client requested the mount path without a slash at its end (C58). */
  readonly lacksSlash: boolean;
}

const root: Mount = { mountPath: undefined, lacksSlash: false };

/**
 * Returns the mount path of a request. Frameworks remove the mount path from `url`, so it is what
 * `originalUrl` has before `url`, also for nested frameworks. Only Express sets `baseUrl`, which is
 * used if it is longer.
 */
export function mountOf({ url = '', baseUrl, originalUrl }: MountedRequest): Mount {
  // The usual case, checked first because it is fast.
  const isAtRoot = baseUrl === undefined || baseUrl === '';
  if (isAtRoot && (originalUrl === undefined || originalUrl === url)) return root;

  const path = splitTarget(url).path;
  const original = typeof originalUrl === 'string' ? splitTarget(originalUrl).path : undefined;
  // For a request of the mount path itself, frameworks set `url` to `/`.
  const lacksSlash = path === '/' && original !== undefined && !original.endsWith('/');
  const removed =
    original?.endsWith(path) === true ? original.slice(0, original.length - path.length) : '';

  const derived = lacksSlash ? plainPath(original) : plainPath(removed);
  // Some mocks have the whole path as `baseUrl`, although nothing was removed from `url`.
  const isMount = original === undefined || baseUrl !== original;
  const stated = isMount ? plainPath(baseUrl) : undefined;
  const mountPath = (stated?.length ?? 0) > (derived?.length ?? 0) ? stated : derived;
  return { mountPath, lacksSlash: lacksSlash && mountPath !== undefined };
}

/**
 * Returns the path if links can begin with it, else undefined. A client may have chosen the path,
 * and a link to `//host` would lead to another server.
 */
export function plainPath(path: unknown): string | undefined {
  return typeof path === 'string' && /^(?:\/[\w.~!$&'()*+,;=:@%-]+)+$/.test(path)
    ? path
    : undefined;
}
