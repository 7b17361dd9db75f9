/** Loads plugins: those of this package by name, others by path or package. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeOf, reasonOf, type Plugin } from '../index.js';
import { orRefuse, Refusal } from './output.js';
import type { Setting, Settings } from './settings.js';

interface ShippedPlugin {
  readonly about: string;
  readonly library?: string;
  readonly load: (settings: Settings) => Promise<Plugin>;
}

const shipped: Readonly<Record<string, ShippedPlugin>> = {
  cors: { about: 'browsers let pages of each --cors-origin in; that turns it on', library: 'cors@2', load: loadCors },
  docs: {
    about: 'Swagger UI at /docs; --dev turns it on where its library is',
    // An install script of its dependency reports to its makers.
    library: '--ignore-scripts swagger-ui-dist@5',
    load: async () => (await import('../plugins/docs.js')).docsPlugin(),
  },
  faults: {
    about: 'a request with a key may ask for a fault: `Petstore-Fault: status=503`',
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
};

export function pluginsHelp(): readonly string[] {
  const install = (library: string | undefined) => (library === undefined ? '' : `; npm install ${library}`);
  return Object.entries(shipped).map(([name, { about, library }]) => `  ${name.padEnd(9)} ${about}${install(library)}`);
}

/** Plugins by name, each once: those asked for, and those that other options turn on. @throws Refusal */
export async function loadPlugins(settings: Settings): Promise<ReadonlyMap<string, Plugin>> {
  const asked = [
    ...(settings.find('--dev') ? [{ text: 'docs', from: '--dev' }] : []),
    ...(settings.list('--cors-origin').length > 0 ? [{ text: 'cors', from: '--plugin' }] : []),
    ...settings.list('--plugin'),
  ];
  const plugins = new Map<string, Plugin>();
  for (const setting of asked) {
    const plugin = await load(setting, settings);
    if (plugin !== undefined) plugins.set(setting.text, refusingByName(setting, plugin));
  }
  return plugins;
}

/** The plugin; where its call, its promise or what it waits for fails, that becomes a Refusal with its name. */
function refusingByName({ text, from }: Setting, plugin: Plugin): Plugin {
  const orRefuseName = (work: () => unknown) =>
    orRefuse(`${from} ${text} failed to start`, 'mend it, or leave it out', work);
  return async (host) => {
    await orRefuseName(() => plugin({ ...host, waitFor: (opening) => host.waitFor(orRefuseName(() => opening)) }));
  };
}

async function loadCors(settings: Settings): Promise<Plugin> {
  const { corsPlugin } = await import('../plugins/cors.js');
  const origins = settings.list('--cors-origin');
  if (origins[0] === undefined) throw new Refusal('--plugin cors lets nobody in; name whom with --cors-origin ORIGIN');
  try {
    return corsPlugin({ origins: origins.map(({ text }) => text) });
  } catch (error) {
    throw new Refusal(`${origins[0].from}: ${reasonOf(error)}`);
  }
}

async function load(setting: Setting, settings: Settings): Promise<Plugin | undefined> {
  const { text, from } = setting;
  const own = Object.hasOwn(shipped, text) ? shipped[text] : undefined;
  if (own === undefined) return loadForeign(setting);
  try {
    return await own.load(settings);
  } catch (error) {
    if (!['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes(codeOf(error) ?? '')) throw error;
    if (from === '--dev') return undefined;
    throw new Refusal(`${from} ${text} needs a package that is not installed: npm install ${own.library}`);
  }
}

async function loadForeign({ text, from }: Setting): Promise<Plugin> {
  const known = Object.keys(shipped).join(', ');
  const mend = `name an installed package, a path that starts with ./ or /, or one of ${known}`;
  // Resolved as by a program in the working folder.
  const { resolve } = createRequire(join(process.cwd(), 'plugins.js'));
  const loading = (): Promise<Readonly<Record<string, unknown>>> =>
    import(text.startsWith('file:') ? text : pathToFileURL(resolve(text)).href);
  const module = await orRefuse(`${from} ${text} cannot be loaded`, mend, loading);
  const plugin = [module['default'], module['plugin']].find((value) => typeof value === 'function');
  if (plugin !== undefined) return async (host) => void (await plugin(host));
  const rule = 'its module must export a function of the host as default or as `plugin`';
  throw new Refusal(`${from} ${text} is no plugin; ${rule}`);
}
