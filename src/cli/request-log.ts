/** The log line of each request, by `--log requests` and `--dev`. */
import type { Plugin } from '../index.js';
import type { LogFormat } from './output.js';

/** An id that is too short for an API key. An id of more digits is not logged. */
const shortNumber = /^(?:0|[1-9][0-9]{0,8})$/;

/** The words that paths of the petstore begin with. */
const publicWords: ReadonlySet<string> = new Set(['', 'v1', 'pets', 'store', 'orders']);

/**
 * Logs every response. A path may hold an API key, so only what cannot be one is logged (C40): the
 * path of the route, with ids of a few digits, or the known words at the beginning of another path.
 * The cost does not grow with the path or with the number of keys.
 *
 * @param showsIds - False if an API key may be a short number.
 */
export function requestLog(format: LogFormat, showsIds: boolean): Plugin {
  return ({ log, onReply }) =>
    onReply(({ method, route, status, milliseconds, keyName: key }, { path: sent, address }) => {
      const path = route === undefined ? knownPart(sent) : pathOf(route, sent, showsIds);
      const ms = Math.round(milliseconds * 1_000) / 1_000;
      if (format === 'json')
        return log('info', 'request', { method, path, route, status, ms, key, address });

      const request = `${method || '-'} ${path || '-'} ${status} ${ms.toFixed(1)} ms`;
      const line = `${request} ${key ?? '-'} ${address ?? '-'}`;
      return log('info', route === undefined || route === path ? line : `${line} ${route}`);
    });
}

/** Returns the path as it came if it differs from the route's in short numbers alone. */
function pathOf(route: string, sent: string, showsIds: boolean): string {
  if (!showsIds || sent.length > route.length + 64) return route;

  const segments = sent.split('/');
  const isPlain = route.split('/').every((expected, index) => {
    const segment = segments[index] ?? '';
    return expected.startsWith('{') ? shortNumber.test(segment) : segment === expected;
  });
  return isPlain ? sent : route;
}

/** Returns the known words that a path begins with, and `…` for the rest. */
function knownPart(sent: string): string {
  const segments = sent.slice(0, 64).split('/');
  const end = segments.findIndex((segment) => !publicWords.has(segment));
  return end < 0 ? sent.slice(0, 64) : [...segments.slice(0, end), '…'].join('/');
}
