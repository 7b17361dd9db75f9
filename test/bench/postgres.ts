/** Starts a PostgreSQL for the benchmark. */
import { chmodSync } from 'node:fs';
import { migratePostgres } from '../../dist/postgres/index.js';
import { Cluster } from '../postgres/cluster.js';
import { atEnd, type Ending } from '../support/at-end.js';
import { folder as newFolder } from '../support/process.js';
import { preload } from './load.js';

/**
 * Starts a PostgreSQL that syncs every commit, with the tables of the petstore. Returns its URL.
 * @param folder The folder of its files; in memory by default.
 * @param slowerByMs The time in ms by which each sync is longer.
 */
export async function startPostgres(
  t: Ending,
  { folder, slowerByMs = 0 }: { readonly folder?: string; readonly slowerByMs?: number } = {},
): Promise<string> {
  const libraries = newFolder(t);
  // PostgreSQL runs as another user if this process is root.
  chmodSync(libraries, 0o755);
  const environment = {
    LD_PRELOAD: preload(libraries, 'slow-sync'),
    SYNC_US: String(1_000 * slowerByMs),
  };
  const settings = ['fsync=on', 'synchronous_commit=on'];
  const cluster = await Cluster.start(settings, folder, environment);
  atEnd(t, () => cluster.remove());
  await migratePostgres(cluster.url);
  return cluster.url;
}
