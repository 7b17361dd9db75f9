/** Finds plugins for a start: shipped ones by name, the operator's by path or package. */
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeOf, PetstoreError, reasonOf, type Plugin, type PluginHost } from '../index.js';
import { Refusal } from './output.js';
import type { Setting, Settings } from './settings.js';

interface ShippedPlugin {
  readonly about: string;
  /** What `npm install` must be told for the library that it wraps. */
  readonly library?: string;
  /** Imports it and its library, so that nothing is paid for one that nobody asked for. */
  readonly load: (corsOrigins: readonly Setting[]) => Promise<Plugin>;
}

/** Every shipped plugin by its name; a package of such a name is reached by its path. */
const shipped: Readonly<Record<string, ShippedPlugin>> = {
  cors: { about: 'browsers let pages of each --cors-origin in; that turns it on', library: 'cors@2', load: loadCors },
  docs: {
    about: 'Swagger UI at /docs; --dev turns it on where its library is',
    // What it depends on reports each install to its makers, by a script.
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

/** The lines of the help on shipped plugins. */
export function pluginsHelp(): readonly string[] {
  return Object.entries(shipped).map(([name, { about, library }]) => {
    const install = library === undefined ? '' : `; npm install ${library}`;
    return `  ${name.padEnd(9)} ${about}${install}`;
  });
}

/**
 * Imports the plugins that are asked for, each once, by the names that they were asked for by, in their order; those
 * that another option turns on are among them.
 * @throws Refusal for one that is not there, does not load, or is no function; the plugins themselves reject with one
 * where they fail to start.
 */
export async function loadPlugins(settings: Settings): Promise<ReadonlyMap<string, Plugin>> {
  const corsOrigins = settings.list('corsOrigin');
  const asked: readonly Setting[] = [
    ...(settings.has('dev') ? [{ text: 'docs', from: '--dev' }] : []),
    ...(corsOrigins.length > 0 ? [{ text: 'cors', from: '--plugin' }] : []),
    ...settings.list('plugin'),
  ];
  const plugins = new Map<string, Plugin>();
  // Of two of a name the later counts: whoever asks for one by name wants to hear that it is missing.
  for (const setting of new Map(asked.map((each) => [each.text, each])).values()) {
    const own = Object.hasOwn(shipped, setting.text) ? shipped[setting.text] : undefined;
    const plugin = await (own === undefined ? loadForeign(setting) : loadShipped(setting, own, corsOrigins));
    if (plugin !== undefined) plugins.set(setting.text, refusing(setting, plugin));
  }
  return plugins;
}

/** The plugin with its own words where it fails to start: at the call, by its promise, or by what it opens. */
function refusing({ text, from }: Setting, plugin: (host: PluginHost) => unknown): Plugin {
  const fail = (error: unknown): never => {
    // What a storage says of records beside the animals names its own file and mend.
    if (error instanceof PetstoreError && error.code.startsWith('storage_')) throw error;
    throw new Refusal(`${from} ${text} failed to start (${reasonOf(error)}); mend it, or leave it out`);
  };
  return async (host) => {
    try {
      await plugin({ ...host, waitFor: (opening) => host.waitFor(Promise.resolve(opening).catch(fail)) });
    } catch (error) {
      fail(error);
    }
  };
}

async function loadCors(corsOrigins: readonly Setting[]): Promise<Plugin> {
  const { corsPlugin } = await import('../plugins/cors.js');
  const [first] = corsOrigins;
  if (first === undefined) throw new Refusal('--plugin cors lets nobody in; name whom with --cors-origin ORIGIN');
  try {
    return corsPlugin({ origins: corsOrigins.map(({ text }) => text) });
  } catch (error) {
    throw new Refusal(`${first.from}: ${reasonOf(error)}`);
  }
}

/** Undefined for the docs of `--dev` where their library is not installed. */
async function loadShipped(
  { text, from }: Setting,
  { load, library }: ShippedPlugin,
  corsOrigins: readonly Setting[],
): Promise<Plugin | undefined> {
  try {
    return await load(corsOrigins);
  } catch (error) {
    // As `import` says it, and as `require` does.
    if (!['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes(codeOf(error) ?? '')) throw error;
    if (from === '--dev') return undefined;
    throw new Refusal(`${from} ${text} needs a package that is not installed: npm install ${library}`);
  }
}

async function loadForeign({ text, from }: Setting): Promise<(host: PluginHost) => unknown> {
  let module: Readonly<Record<string, unknown>>;
  try {
    module = await import(locate(text).href);
  } catch (error) {
    const known = Object.keys(shipped).join(', ');
    const mend = `name an installed package, a path that starts with ./ or /, or one of ${known}`;
    throw new Refusal(`${from} ${text} cannot be loaded (${reasonOf(error)}); ${mend}`);
  }
  const plugin = [module['default'], module['plugin']].find((value) => typeof value === 'function');
  if (plugin !== undefined) return (host) => plugin(host);
  throw new Refusal(
    `${from} ${text} is no plugin; its module must export a function of the host as default or as \`plugin\``,
  );
}

function locate(name: string): URL {
  if (name.startsWith('file:')) return new URL(name);
  if (name.startsWith('.') || isAbsolute(name)) return pathToFileURL(resolve(name));
  // As a program in the working folder would find it: there its operator installs packages.
  return pathToFileURL(createRequire(join(process.cwd(), 'plugins.js')).resolve(name));
}
