/** Owns the run of a server, from its options to its end. Knows neither HTTP nor where animals are kept. */
import { inspect } from 'node:util';
import { createPetstore, PetstoreError, type Log, type Petstore, type PetStorage } from '../index.js';
import { devBanner } from '../server/dev-banner.js';
import { devKey } from '../server/dev-key.js';
import { jsonLog } from '../server/json-log.js';
import { listenRefusal } from '../server/listen-refusal.js';
import { openKeys } from '../server/live-keys.js';
import { loadPlugins } from '../server/plugins.js';
import { reasonOf } from '../server/refusal.js';
import { requestLog } from '../server/request-log.js';
import type { Settings } from '../server/settings.js';
import { onSignals } from '../server/signals.js';
import { readStartOptions, type StartOptions } from '../server/start-options.js';

/** How long an end may take, in milliseconds; whoever stops us waits 10 s. */
const stopTimeoutMs = 9_500;

/**
 * Serves until a signal; resolves once it listens. Storage is opened only when all else has been found good.
 * @throws Refusal for what the operator gave; PetstoreError `storage_…` for a storage that cannot be used.
 */
export async function start(_operands: readonly string[], settings: Settings): Promise<undefined> {
  const options = await readStartOptions(settings);
  const log: Log = options.log === 'silent' ? () => undefined : jsonLog(process.stdout);
  const loaded = await loadPlugins(options.plugins, options);
  const plugins = loaded.map(({ plugin }) => plugin);
  const keys = openKeys({ ...options, devKey: options.isDev ? devKey : undefined }, log);

  let openStorage = (): void => undefined;
  const opening = new Promise<PetStorage>((resolve) => {
    openStorage = () => resolve(openStorageOf(options, log));
  });
  const petstore = createPetstore({
    keys: keys.verify,
    storage: opening,
    plugins: options.log === 'requests' ? [requestLog, ...plugins] : plugins,
    log,
    maxBodyBytes: options.maxBodyBytes,
    ...options.baseUrls,
  });

  let isStopping = false;
  onSignals({
    stop: async (signal) => {
      isStopping = true;
      log('info', 'stopping', { signal });
      await closeInTime(petstore, log);
    },
    reload: keys.reload,
    crashed: (error) => {
      log('error', 'a fault of ours', { error: inspect(error) });
      // Nothing else would say why the process is gone.
      if (options.log === 'silent') process.stderr.write(`${inspect(error)}\n`);
    },
  });

  openStorage();
  const storage = await opening;
  if (isStopping) return undefined;
  const url = await listen(petstore, options);
  log('info', 'listening', { url, storage: options.storage.text, pets: storage.size, readyMs: Math.round(performance.now()) });
  if (options.isDev)
    process.stdout.write(
      devBanner(
        url,
        devKey(),
        loaded.some(({ name }) => name === 'docs'),
      ),
    );
  return undefined;
}

/** On the machine of whoever tries it out, a database is made ready by itself. */
async function openStorageOf({ storage, isDev }: StartOptions, log: Log): Promise<PetStorage> {
  if (isDev) await storage.migrate?.();
  return storage.open(log);
}

async function listen(petstore: Petstore, { host, port, tls }: StartOptions): Promise<string> {
  try {
    const { url } = await petstore.listen({ host, port, ...(tls && { tls }) });
    return url;
  } catch (error) {
    await petstore.close();
    // Of what a plugin opens, not of the port.
    throw error instanceof PetstoreError ? error : listenRefusal(error, host, port);
  }
}

/** Closes; a request, plugin or disk that hangs must not keep us from an end that somebody waits for. */
async function closeInTime(petstore: Petstore, log: Log): Promise<void> {
  const timer = setTimeout(() => {
    log('error', 'closing takes too long: ended without it', { milliseconds: stopTimeoutMs });
    process.exit(1);
  }, stopTimeoutMs);
  try {
    await petstore.close();
  } catch (error) {
    log('error', 'closing failed', { error: reasonOf(error) });
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
