/** Loads plugins: those of this package by name, others by path or package. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeOf, reasonOf, type Plugin } from '../index.js';
import { orRefuse, Refusal } from './output.js';
import type { Settings } from './settings.js';

/** What each of this package gives, and the library that it needs. */
const shipped: Readonly<Record<string, readonly [about: string, library?: string]>> = {
  cors: ['browsers let pages of each --cors-origin in; that turns it on', 'cors@2'],
  // An install script of its dependency reports to its makers.
  docs: [
    'Swagger UI at /docs; --dev turns it on where its library is',
    '--ignore-scripts swagger-ui-dist@5',
  ],
  faults: ['a request with a key may ask for a fault: `Petstore-Fault: status=503`'],
  metrics: ['Prometheus reads /metrics, which needs no key', 'prom-client@15'],
  orders: ['experimental: orders at /v1/store/orders, kept in a file beside the animals'],
};
const loads: Readonly<Record<string, (settings: Settings) => Promise<Plugin>>> = {
  cors: loadCors,
  docs: async () => (await import('../plugins/docs.js')).docsPlugin(),
  faults: async () => (await import('../plugins/faults.js')).faultsPlugin(),
  metrics: async () => (await import('../plugins/metrics.js')).metricsPlugin(),
  orders: async () => (await import('../plugins/orders.js')).ordersPlugin(),
};

export function pluginsHelp(): readonly string[] {
  return Object.entries(shipped).map(
    ([name, words]) => `  ${name.padEnd(9)} ${words.join('; npm install ')}`,
  );
}

/**
 * Plugins by name, each once: those asked for, and those that other options turn on. @throws
 * Refusal
 */
export async function loadPlugins(settings: Settings): Promise<ReadonlyMap<string, Plugin>> {
  const asked = [
    ...(settings.find('--dev') ? [{ text: 'docs', from: '--dev' }] : []),
    ...(settings.list('--cors-origin').length > 0 ? [{ text: 'cors', from: '--plugin' }] : []),
    ...settings.list('--plugin'),
  ];
  const plugins = new Map<string, Plugin>();
  for (const { text, from } of asked) {
    const plugin = await load(text, from, settings);
    if (plugin === undefined) continue;
    // Where its call, its promise or what it waits for fails, that is a Refusal with its name.
    const named = (work: () => unknown) =>
      orRefuse(`${from} ${text} failed to start`, 'mend it, or leave it out', work);
    plugins.set(text, async (host) => {
      await named(() =>
        plugin({ ...host, waitFor: (opening) => host.waitFor(named(() => opening)) }),
      );
    });
  }
  return plugins;
}

/** Undefined for the docs of --dev where their library is not installed. @throws Refusal */
async function load(text: string, from: string, settings: Settings): Promise<Plugin | undefined> {
  try {
    const own = Object.hasOwn(loads, text) ? loads[text] : undefined;
    return await (own === undefined ? loadForeign(text, from) : own(settings));
  } catch (error) {
    if (!codeOf(error)?.endsWith('MODULE_NOT_FOUND')) throw error;
    if (from === '--dev') return undefined;
    throw new Refusal(
      `${from} ${text} needs a package that is not installed: npm install ${shipped[text]?.[1]}`,
    );
  }
}

async function loadCors(settings: Settings): Promise<Plugin> {
  const { corsPlugin } = await import('../plugins/cors.js');
  const origins = settings.list('--cors-origin');
  if (origins[0] === undefined)
    throw new Refusal('--plugin cors lets nobody in; name whom with --cors-origin ORIGIN');
  try {
    return corsPlugin({ origins: origins.map(({ text }) => text) });
  } catch (error) {
    throw new Refusal(`${origins[0].from}: ${reasonOf(error)}`);
  }
}

async function loadForeign(text: string, from: string): Promise<Plugin> {
  const known = Object.keys(shipped).join(', ');
  const mend = `name an installed package, a path that starts with ./ or /, or one of ${known}`;
  // Resolved as by a program in the working folder.
  const { resolve } = createRequire(join(process.cwd(), 'plugins.js'));
  const loading = (): Promise<Readonly<Record<string, unknown>>> =>
    import(text.startsWith('file:') ? text : pathToFileURL(resolve(text)).href);
  const module = await orRefuse(`${from} ${text} cannot be loaded`, mend, loading);
  const plugin = [module['default'], module['plugin']].find((value) => typeof value === 'function');
  if (plugin !== undefined) return async (host) => void (await plugin(host));
  throw new Refusal(
    `${from} ${text} is no plugin; its module must export a function as default or as \`plugin\``,
  );
}
