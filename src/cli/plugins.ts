/** Loads plugins: shipped plugins by name, others by path or package. */
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeOf, reasonOf, type Plugin } from '../index.js';
import { placeOf } from './error-places.js';
import { requireRegularFile } from './files.js';
import { helpRow } from './help.js';
import { orRefuse, quote, refuse } from './output.js';
import type { Setting } from './setting-text.js';
import { readWholeNumber } from './setting-values.js';
import type { Settings } from './settings.js';
import { suggestion } from './suggestion.js';

/** A plugin that this package contains. */
interface ShippedPlugin {
  /** The description in the help. */
  readonly about: string;
  /** The arguments for `npm install` of its library; omitted if it needs none. */
  readonly library?: string;
  /** Imports the plugin. @throws Node's `…MODULE_NOT_FOUND` if the library is not installed */
  readonly load: (settings: Settings, from: string) => Promise<Plugin>;
}

/** The shipped plugins by name, in the order of the help. */
const shipped = new Map(
  Object.entries<ShippedPlugin>({
    cors: {
      about: 'CORS for pages of each --cors-origin, which turns it on',
      library: 'cors@2',
      load: loadCors,
    },
    docs: {
      about: 'the page at /, on with --dev; Swagger UI at /docs',
      // Without scripts, because a dependency's install script sends usage data.
      library: '--ignore-scripts swagger-ui-dist@5',
      load: async () => (await import('../plugins/docs.js')).docsPlugin(),
    },
    faults: {
      about: 'failures on demand, a journal of requests, and a reset; see `help faults`',
      load: loadFaults,
    },
    metrics: {
      about: 'metrics for Prometheus at /metrics, without a key',
      library: 'prom-client@15',
      load: async () => (await import('../plugins/metrics.js')).metricsPlugin(),
    },
    orders: {
      about: 'experimental: orders at /v1/store/orders, with the pets',
      load: async () => (await import('../plugins/orders.js')).ordersPlugin(),
    },
  }),
);

/** Returns the lines of the help about plugins. */
export function pluginsHelp(): readonly string[] {
  return Array.from(shipped, ([name, { about, library }]) =>
    helpRow(name, library === undefined ? [about] : [`${about};`, `npm install ${library}`]),
  ).flat();
}

/**
 * Loads the plugins that `--plugin` names and those that other options turn on. The keys of the map
 * are the names that the options give.
 *
 * @throws Refusal, also if `--plugin` names a plugin twice, even by two names
 */
export async function loadPlugins(settings: Settings): Promise<ReadonlyMap<string, Plugin>> {
  const named = settings.list('--plugin');
  const [origin] = settings.list('--cors-origin');
  const wanted: readonly Setting[] = [
    ...(settings.find('--dev') ? [{ text: 'docs', from: '--dev' }] : []),
    ...(origin === undefined ? [] : [{ text: 'cors', from: origin.from }]),
    ...named,
  ];

  const plugins = new Map<string, Plugin>();
  /** The plugins of `--plugin` so far: the names of shipped ones, and the functions of others. */
  const seen = new Set<string | Plugin>();

  for (const setting of wanted) {
    const { text, from } = setting;
    const plugin = await load(setting, settings);

    const identity = shipped.has(text) ? text : plugin;
    if (seen.has(identity))
      refuse(`${from} ${text} names a plugin that is already loaded; name it once`);
    if (named.includes(setting)) seen.add(identity);

    plugins.set(text, withRefusals(plugin, setting));
  }

  const journalSize = settings.find('--journal-size');
  if (journalSize !== undefined && !plugins.has('faults'))
    refuse(`${journalSize.from} is only for the plugin faults; add --plugin faults`);
  return plugins;
}

const fixHint = 'fix the plugin, or leave it out';

/**
 * Runs `work` of a plugin and returns its result. Rejects if nothing is left in the process that
 * could settle it, because Node would end the process without a message.
 */
async function orRefuseEndless<Value>(work: () => Value): Promise<Awaited<Value>> {
  let refuseEndless = (): void => undefined;
  const endless = new Promise<never>((_, reject) => {
    refuseEndless = () => reject(new Error('it waits for a promise that nothing settles'));
  });

  process.once('beforeExit', refuseEndless);
  try {
    return await Promise.race([work(), endless]);
  } finally {
    process.off('beforeExit', refuseEndless);
  }
}

/** Wraps a plugin, so that any error of its start becomes a Refusal that names the plugin. */
function withRefusals(plugin: Plugin, { text, from }: Setting): Plugin {
  const orRefusePlugin = (work: () => unknown) =>
    orRefuse(`${from} ${text} failed to start`, fixHint, () => orRefuseEndless(work));

  // Values of other types are passed on, because the host rejects them itself.
  const isPromise = (value: unknown) => typeof Object(value).then === 'function';
  return async (host) => {
    await orRefusePlugin(async () => {
      const started: unknown = await plugin({
        ...host,
        waitFor: (opening) =>
          host.waitFor(isPromise(opening) ? orRefusePlugin(() => opening) : opening),
        onStart: (callback) =>
          host.onStart(
            typeof callback === 'function'
              ? async () => void (await orRefusePlugin(callback))
              : callback,
          ),
      });
      if (typeof started === 'function')
        throw new TypeError(
          'it returned a function: export the plugin itself, not a function that makes it',
        );
    });
  };
}

/** @throws Refusal */
async function load({ text, from }: Setting, settings: Settings): Promise<Plugin> {
  const own = shipped.get(text);
  if (own === undefined) return loadForeign(text, from);

  try {
    return await own.load(settings, from);
  } catch (error) {
    if (!codeOf(error)?.endsWith('MODULE_NOT_FOUND')) throw error;
    refuse(`${from} ${text} needs a package that is not installed: npm install ${own.library}`);
  }
}

async function loadCors(settings: Settings, from: string): Promise<Plugin> {
  const { corsPlugin } = await import('../plugins/cors.js');

  const origins = settings.list('--cors-origin');
  if (origins.length === 0)
    refuse(`${from} cors needs an origin; give one with --cors-origin ORIGIN`);

  // Checked one by one, so that the refusal can quote the origin without its password.
  for (const { text, from: source } of origins)
    try {
      corsPlugin({ origins: [text] });
    } catch (error) {
      refuse(`${source}: ${quote(text)}: ${reasonOf(error)}`);
    }
  return corsPlugin({ origins: origins.map(({ text }) => text) });
}

async function loadFaults(settings: Settings): Promise<Plugin> {
  const { faultsPlugin } = await import('../plugins/faults.js');
  return faultsPlugin({ journalSize: readWholeNumber(settings.get('--journal-size'), 0, 10_000) });
}

/** Loads a plugin that is not shipped, by its path, its file URL or the name of its package. */
async function loadForeign(text: string, from: string): Promise<Plugin> {
  const known = [...shipped.keys()];
  const isList = text.split(',').some((name) => shipped.has(name));
  const hint =
    'name an installed package, a path that starts with ./ or /, or one of ' +
    `${known.join(', ')}${isList ? `; give ${from} for each plugin` : suggestion(text, known, '')}`;

  if (/^(?!file:)[a-z][\w+.-]*:\/\//i.test(text))
    refuse(`${from} must not be a URL such as ${quote(text)}; ${hint}`);

  // Package names are resolved from the working folder.
  const { resolve } = createRequire(join(process.cwd(), 'plugins.js'));
  const loading = async (): Promise<Readonly<Record<string, unknown>>> => {
    const url = text.startsWith('file:') ? new URL(text) : pathToFileURL(resolve(text));
    // Importing a pipe or a device might never end.
    requireRegularFile(text, statSync(url));
    try {
      return await orRefuseEndless(() => import(url.href));
    } catch (error) {
      const place = placeOf(error, url.href);
      if (place === undefined) throw error;
      const reason = `${reasonOf(error)}, in ${place}`;
      refuse(`${from} ${text} cannot be loaded (${reason}); ${fixHint}`);
    }
  };
  const module = await orRefuse(`${from} ${text} cannot be loaded`, hint, loading);

  const isPlugin = (value: unknown): value is Plugin => typeof value === 'function';
  const plugin = [module['default'], module['plugin']].find(isPlugin);
  if (plugin !== undefined) return plugin;
  refuse(`${from} ${text} is not a plugin; export a function as default or as \`plugin\``);
}
