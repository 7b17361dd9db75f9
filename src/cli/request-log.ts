/** Logs each request, with `--log requests` and `--dev`. */
import type { Plugin } from '../index.js';
import type { LogFormat } from './output.js';

/** An id of at most nine digits, too short for an API key. Longer ids are not logged. */
const shortNumber = /^(?:0|[1-9][0-9]{0,8})$/;

/** The path segments of the petstore's own routes, which are safe to log. */
const publicWords: ReadonlySet<string> = new Set(['', 'v1', 'pets', 'store', 'orders']);

/**
 * Logs every response. A path may contain an API key, so only safe parts are logged (C40): the
 * route with short ids, or the known first segments of any other path. The cost does not depend on
 * the length of the path or the number of keys.
 *
 * @param showsIds False if an API key may be a short number.
 */
export function requestLog(format: LogFormat, showsIds: boolean): Plugin {
  return ({ log, onReply }) =>
    onReply((event, { path: sent, address }) => {
      const { method, route, milliseconds, keyName: key, fault, cut } = event;
      const status = cut === 'drop' ? undefined : event.status;
      const path = route === undefined ? knownPart(sent) : pathOf(route, sent, showsIds);
      const ms = Math.round(milliseconds * 1_000) / 1_000;
      if (format === 'json')
        return log('info', 'request', {
          method,
          path,
          route,
          status,
          fault,
          cut,
          ms,
          key,
          address,
        });

      const words = [method || '-', path || '-', status ?? '-', ms.toFixed(1), 'ms'];
      words.push(key ?? '-', address ?? '-');
      if (route !== undefined && route !== path) words.push(route);
      if (fault !== undefined) words.push(`fault=${fault}`);
      if (cut !== undefined) words.push(`cut=${cut}`);
      return log('info', words.join(' '));
    });
}

/** Returns the path if only short numbers differ from the route, else the route. */
function pathOf(route: string, sent: string, showsIds: boolean): string {
  if (!showsIds || sent.length > route.length + 64) return route;

  const segments = sent.split('/');
  const isPlain = route.split('/').every((expected, index) => {
    const segment = segments[index] ?? '';
    return expected.startsWith('{') ? shortNumber.test(segment) : segment === expected;
  });
  return isPlain ? sent : route;
}

/** Returns the known first segments of a path, and `…` for the rest. */
function knownPart(sent: string): string {
  const segments = sent.slice(0, 64).split('/');
  const end = segments.findIndex((segment) => !publicWords.has(segment));
  return end < 0 ? sent.slice(0, 64) : [...segments.slice(0, end), '…'].join('/');
}
