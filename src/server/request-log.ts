/** Owns the log line of a request, as a plugin like any other. Knows neither the client's path nor its key. */
import type { PluginHost } from '../index.js';

/** Logs every reply: method, route, status, milliseconds, the name of the key. */
export function requestLog(host: PluginHost): void {
  host.onReply(({ method, route, status, milliseconds, keyName }) => {
    host.log('info', 'request', { method, route, status, ms: Math.round(milliseconds * 1_000) / 1_000, key: keyName });
  });
}
