/** Owns the table of plugins that come with the server: what each is for, needs installed and is made with. */
import type { Plugin } from '../index.js';
import { reasonOf, Refusal } from './refusal.js';
import type { Setting } from './settings.js';

/** What the command line says to shipped plugins. */
export interface ShippedPluginOptions {
  readonly corsOrigins: readonly Setting[];
}

/** A plugin that a bare name stands for. */
export interface ShippedPlugin {
  readonly about: string;
  /** What `npm install` must be told for the library that it wraps. */
  readonly library?: string;
  /** Imports it and its library, so that nothing is paid for one that nobody asked for. */
  readonly load: (options: ShippedPluginOptions) => Promise<Plugin>;
}

/** Every shipped plugin by its name; a package of such a name is reached by its path. */
export const shippedPlugins: ReadonlyMap<string, ShippedPlugin> = new Map<string, ShippedPlugin>([
  ['cors', { about: 'browsers let pages of each --cors-origin in; that turns it on', library: 'cors@2', load: loadCors }],
  [
    'docs',
    {
      about: 'Swagger UI at /docs; --dev turns it on where its library is',
      // What it depends on reports each install to its makers, by a script.
      library: '--ignore-scripts swagger-ui-dist@5',
      load: async () => (await import('../plugins/docs.js')).docsPlugin(),
    },
  ],
  [
    'metrics',
    {
      about: 'Prometheus reads /metrics, which needs no key',
      library: 'prom-client@15',
      load: async () => (await import('../plugins/metrics.js')).metricsPlugin(),
    },
  ],
  [
    'orders',
    {
      about: 'experimental: orders at /v1/store/orders, kept in a file beside the animals',
      load: async () => (await import('../plugins/orders.js')).ordersPlugin(),
    },
  ],
]);

async function loadCors({ corsOrigins }: ShippedPluginOptions): Promise<Plugin> {
  const { corsPlugin } = await import('../plugins/cors.js');
  const [first] = corsOrigins;
  if (first === undefined) throw new Refusal('--plugin cors lets nobody in; name whom with --cors-origin ORIGIN');
  try {
    return corsPlugin({ origins: corsOrigins.map(({ text }) => text) });
  } catch (error) {
    throw new Refusal(`${first.from}: ${reasonOf(error)}`);
  }
}
