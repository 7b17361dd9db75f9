/** Owns finding plugins: shipped ones by name, the operator's by path or package. Knows no plugin's meaning. */
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin, PluginHost } from '../index.js';
import { reasonOf, Refusal } from './refusal.js';
import type { Setting } from './settings.js';
import { shippedPlugins, type ShippedPlugin, type ShippedPluginOptions } from './shipped-plugins.js';

/** A plugin as the operator names it. */
export interface PluginSetting extends Setting {
  /** Whether a start goes on without it where its library is not installed. */
  readonly isOptional?: boolean;
}

/** A plugin with the name that it was asked for by. */
export interface NamedPlugin {
  readonly name: string;
  readonly plugin: Plugin;
}

/**
 * Imports plugins, in their order.
 * @throws Refusal for one that isn't there, doesn't load, or is no function; what they throw when called too.
 */
export async function loadPlugins(settings: readonly PluginSetting[], options: ShippedPluginOptions): Promise<readonly NamedPlugin[]> {
  const plugins: NamedPlugin[] = [];
  for (const setting of settings) {
    const shipped = shippedPlugins.get(setting.text);
    const plugin = shipped === undefined ? await loadForeign(setting) : await loadShipped(setting, shipped, options);
    if (plugin !== undefined) plugins.push({ name: setting.text, plugin: refusing(setting, plugin) });
  }
  return plugins;
}

/** The plugin with its failure to start in one line. */
function refusing(setting: Setting, plugin: (host: PluginHost) => unknown): Plugin {
  return (host) => {
    try {
      plugin(host);
    } catch (error) {
      throw new Refusal(`${setting.from} ${setting.text} failed to start (${reasonOf(error)}); mend it, or leave it out`);
    }
  };
}

async function loadShipped(
  { text, from, isOptional }: PluginSetting,
  { load, library }: ShippedPlugin,
  options: ShippedPluginOptions,
): Promise<Plugin | undefined> {
  try {
    return await load(options);
  } catch (error) {
    if (!isNotInstalled(error)) throw error;
    if (isOptional === true) return undefined;
    throw new Refusal(`${from} ${text} needs a package that is not installed: npm install ${library}`);
  }
}

/** Whether a package is missing, as `import` or as `require` says it. */
function isNotInstalled(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND');
}

async function loadForeign({ text, from }: Setting): Promise<(host: PluginHost) => unknown> {
  const module = await importPlugin(text).catch((error: unknown) => {
    const known = [...shippedPlugins.keys()].join(', ');
    throw new Refusal(`${from} ${text} cannot be loaded (${reasonOf(error)}); name an installed package, a path that starts with ./ or /, or one of ${known}`);
  });
  const plugin = [module['default'], module['plugin']].find(isFunction);
  if (plugin === undefined) throw new Refusal(`${from} ${text} is no plugin; its module must export a function of the host as default or as \`plugin\``);
  return plugin;
}

async function importPlugin(name: string): Promise<Readonly<Record<string, unknown>>> {
  return import(locate(name).href);
}

function locate(name: string): URL {
  if (name.startsWith('file:')) return new URL(name);
  if (name.startsWith('.') || isAbsolute(name)) return pathToFileURL(resolve(name));
  // As a program in the working folder would find it: there its operator installs packages.
  return pathToFileURL(createRequire(join(process.cwd(), 'plugins.js')).resolve(name));
}

function isFunction(value: unknown): value is (host: PluginHost) => unknown {
  return typeof value === 'function';
}
