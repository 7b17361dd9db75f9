/** Owns finding plugins: shipped ones by name, the operator's by path or package. Knows no plugin's meaning. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin, PluginHost } from '../index.js';
import { reasonOf, Refusal } from './refusal.js';
import type { Setting } from './settings.js';

/**
 * Imports plugins, in their order.
 * @throws Refusal for one that isn't there, doesn't load, or is no function; what they throw when called too.
 */
export async function loadPlugins(settings: readonly Setting[]): Promise<readonly Plugin[]> {
  const plugins: Plugin[] = [];
  for (const setting of settings) plugins.push(await loadPlugin(setting));
  return plugins;
}

async function loadPlugin({ text, from }: Setting): Promise<Plugin> {
  const refuse = (problem: string): never => {
    throw new Refusal(`${from} ${text} ${problem}`);
  };
  const module = await importPlugin(text).catch((error: unknown) =>
    refuse(`cannot be loaded (${reasonOf(error)}); name an installed package, or a path that starts with ./ or /`),
  );
  const plugin = [module['default'], module['plugin']].find(isFunction);
  if (plugin === undefined) return refuse('is no plugin; its module must export a function of the host as default or as `plugin`');
  return (host) => {
    try {
      plugin(host);
    } catch (error) {
      refuse(`failed to start (${reasonOf(error)}); mend it, or leave it out`);
    }
  };
}

async function importPlugin(name: string): Promise<Readonly<Record<string, unknown>>> {
  return import(locate(name).href);
}

function locate(name: string): URL {
  if (name.startsWith('file:')) return new URL(name);
  if (name.startsWith('.') || isAbsolute(name)) return pathToFileURL(resolve(name));
  const shipped = new URL(`../plugins/${name}.js`, import.meta.url);
  if (/^[a-z0-9-]+$/.test(name) && existsSync(shipped)) return shipped;
  // As a program in the working folder would find it: there its operator installs packages.
  return pathToFileURL(createRequire(join(process.cwd(), 'plugins.js')).resolve(name));
}

function isFunction(value: unknown): value is (host: PluginHost) => unknown {
  return typeof value === 'function';
}
