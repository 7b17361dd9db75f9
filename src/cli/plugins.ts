/** Loads plugins: those of this package by name, others by path or package. */
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeOf, reasonOf, type Plugin } from '../index.js';
import { placeOf } from './error-places.js';
import { requireRegularFile } from './files.js';
import { helpRow } from './help.js';
import { orRefuse, quote, refuse } from './output.js';
import type { Setting, Settings } from './settings.js';

/** A plugin of this package. */
interface ShippedPlugin {
  /** What it gives, in the help. */
  readonly about: string;
  /** What `npm install` takes for the library that it needs; absent where it needs none. */
  readonly library?: string;
  /** Imports it. A library that is not installed is an error of Node's `…MODULE_NOT_FOUND`. */
  readonly load: (settings: Settings, from: string) => Promise<Plugin>;
}

/** The plugins of this package by their names, in the order of the help. */
const shipped = new Map(
  Object.entries<ShippedPlugin>({
    cors: {
      about: 'browsers let pages of each --cors-origin in; that turns it on',
      library: 'cors@2',
      load: loadCors,
    },
    docs: {
      about: 'Swagger UI at /docs; --dev turns it on where its library is',
      // An install script of the library's dependency reports to its makers.
      library: '--ignore-scripts swagger-ui-dist@5',
      load: async () => (await import('../plugins/docs.js')).docsPlugin(),
    },
    faults: {
      about: 'faults on demand, by `Petstore-Fault: status=503` or /v1/faults; and /v1/reset',
      load: async () => (await import('../plugins/faults.js')).faultsPlugin(),
    },
    metrics: {
      about: 'Prometheus reads /metrics, which needs no key',
      library: 'prom-client@15',
      load: async () => (await import('../plugins/metrics.js')).metricsPlugin(),
    },
    orders: {
      about: 'experimental: orders at /v1/store/orders, kept in a file beside the animals',
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
 * Loads the plugins that `--plugin` names, and those that other options turn on, by their names.
 *
 * @throws Refusal, also where `--plugin` names one twice, be it by two names
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
  /** What `--plugin` has named: each of ours by its name, those of others themselves. */
  const seen = new Set<string | Plugin>();

  for (const setting of wanted) {
    const { text, from } = setting;
    const plugin = await load(setting, settings);
    if (plugin === undefined) continue;

    const identity = shipped.has(text) ? text : plugin;
    if (seen.has(identity))
      refuse(`${from} ${text} is a plugin that is there already; name it once`);
    if (named.includes(setting)) seen.add(identity);

    plugins.set(text, refusedByName(plugin, setting));
  }

  return plugins;
}

/** The same plugin; where its call, its promise or what it waits for fails, a Refusal names it. */
function refusedByName(plugin: Plugin, { text, from }: Setting): Plugin {
  const named = (work: () => unknown) =>
    orRefuse(`${from} ${text} failed to start`, 'mend it, or leave it out', work);

  // The host refuses anything but a promise and a function itself, so these pass as they are.
  const isPromise = (value: unknown) => typeof Object(value).then === 'function';
  return async (host) => {
    await named(async () => {
      const started: unknown = await plugin({
        ...host,
        waitFor: (opening) => host.waitFor(isPromise(opening) ? named(() => opening) : opening),
        onStart: (callback) =>
          host.onStart(
            typeof callback === 'function' ? async () => void (await named(callback)) : callback,
          ),
      });
      if (typeof started === 'function')
        throw new TypeError(
          'it returned a function: export what takes the host, not what makes it',
        );
    });
  };
}

/**
 * Loads one plugin; answers undefined for the docs of `--dev` where their library is not installed.
 *
 * @throws Refusal
 */
async function load({ text, from }: Setting, settings: Settings): Promise<Plugin | undefined> {
  const own = shipped.get(text);
  if (own === undefined) return loadForeign(text, from);

  try {
    return await own.load(settings, from);
  } catch (error) {
    if (!codeOf(error)?.endsWith('MODULE_NOT_FOUND')) throw error;
    if (from === '--dev') return undefined;
    refuse(`${from} ${text} needs a package that is not installed: npm install ${own.library}`);
  }
}

async function loadCors(settings: Settings, from: string): Promise<Plugin> {
  const { corsPlugin } = await import('../plugins/cors.js');

  const origins = settings.list('--cors-origin');
  if (origins.length === 0)
    refuse(`${from} cors lets nobody in; name whom with --cors-origin ORIGIN`);

  // One by one, so that a refusal names the text without a password.
  for (const { text, from: source } of origins)
    try {
      corsPlugin({ origins: [text] });
    } catch (error) {
      refuse(`${source}: ${quote(text)}: ${reasonOf(error)}`);
    }
  return corsPlugin({ origins: origins.map(({ text }) => text) });
}

/** Loads a plugin of the operator, by its path, its file URL or the name of its package. */
async function loadForeign(text: string, from: string): Promise<Plugin> {
  const known = [...shipped.keys()].join(', ');
  const mend = `name an installed package, a path that starts with ./ or /, or one of ${known}`;

  if (/^(?!file:)[a-z][\w+.-]*:\/\//i.test(text))
    refuse(`${from} must not be a URL such as ${quote(text)}; ${mend}`);

  // Names are resolved as by a program in the working folder.
  const { resolve } = createRequire(join(process.cwd(), 'plugins.js'));
  const loading = async (): Promise<Readonly<Record<string, unknown>>> => {
    const url = text.startsWith('file:') ? new URL(text) : pathToFileURL(resolve(text));
    // Node would wait for the writer of a pipe, and never end a device.
    requireRegularFile(text, statSync(url));
    try {
      return await import(url.href);
    } catch (error) {
      const place = placeOf(error, url.href);
      if (place === undefined) throw error;
      refuse(
        `${from} ${text} cannot be loaded (${reasonOf(error)}, in ${place}); ` +
          'fix it, or leave the plugin out',
      );
    }
  };
  const module = await orRefuse(`${from} ${text} cannot be loaded`, mend, loading);

  const isPlugin = (value: unknown): value is Plugin => typeof value === 'function';
  const plugin = [module['default'], module['plugin']].find(isPlugin);
  if (plugin !== undefined) return plugin;
  refuse(
    `${from} ${text} is no plugin; its module must export a function as default or as \`plugin\``,
  );
}
