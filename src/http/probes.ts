/** Owns `/healthz` and `/readyz`, for whoever decides where requests go. Knows neither pets nor keys. */
import { jsonReply } from './reply.js';
import type { Route } from './route.js';

/** @param ready Resolves while reads and writes can be expected to succeed, else rejects with `unavailable`. */
export function probeRoutes(ready: () => Promise<void>): readonly Route[] {
  const healthy = jsonReply(200, '{"status":"ok"}');
  return [
    { path: '/healthz', methods: { GET: { handler: () => healthy } } },
    { path: '/readyz', methods: { GET: { handler: () => ready().then(() => healthy) } } },
  ];
}
