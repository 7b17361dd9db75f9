/** Owns what is measured: how each server is started. Knows no operation. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { callersEnvironment } from '../support/environment.js';
import { root } from '../support/process.js';
import { benchmarkKey } from './operations.js';

/** The servers that ours is measured against. */
export const peersFolder = join(root, 'test/bench/peers');

/** A program and its arguments. */
export type Command = readonly [string, ...string[]];

/** A server that can be started: it logs its url once it listens. */
export interface Contestant {
  readonly name: string;
  readonly command: Command;
  /** It answers everything with the same 200. */
  readonly isBare?: true;
}

/** What each gets to know by its environment, beside PATH. */
export const environment = { PETSTORE_API_KEYS: benchmarkKey, PORT: '0' };

/** The petstore as anyone starts it. */
export function petstore(storage: string, name = 'petstore', checkout = root): Contestant {
  const server = join(checkout, 'dist/server.js');
  return { name, command: [process.execPath, server, '--log', 'info', '--storage', storage] };
}

/** The petstore of another checkout, which BEFORE names and which is built. */
export function petstoreBefore(storage: string): Contestant {
  const checkout = callersEnvironment['BEFORE'];
  if (checkout === undefined) throw new RangeError('BEFORE=FOLDER must name a checkout');
  return petstore(storage, 'petstore before', checkout);
}

/** `node:http` that answers 80 fixed bytes. */
export const bare: Contestant = { ...peer('bare', 'bare node:http'), isBare: true };

/**
 * `node:http` that sends as many bytes as the petstore and does nothing else: what no server on it
 * can exceed.
 */
export const limit: Contestant = { ...peer('limit'), isBare: true };

/**
 * The first of some once more: how far its ratio is from 1 is how far those of all others may be
 * off.
 */
export function again([first = bare]: readonly Contestant[]): Contestant {
  return { ...first, name: `${first.name} again` };
}

export const fastify = peer('fastify');
export const bun: Contestant = {
  name: 'bun',
  command: [join(peersFolder, 'node_modules/.bin/bun'), join(peersFolder, 'bun.js')],
};

/** The peers that were installed from `peers/package-lock.json`. */
export const peers: readonly Contestant[] = [
  fastify,
  ...['hono', 'express', 'json-server'].map((name) => peer(name)),
  bun,
];

/** The petstore over better-sqlite3 in two ways; none where that is not built for this Node. */
export function sqlite(folder: string): readonly Contestant[] {
  const tried = `require('better-sqlite3')(':memory:')`;
  const { status } = spawnSync(process.execPath, ['-e', tried], { cwd: peersFolder });
  return ['batched', 'single']
    .filter(() => status === 0)
    .map((mode) => peer('sqlite', `better-sqlite3, ${mode}`, `${folder}/${mode}.db`, mode));
}

/** The version in which a package of the peers is installed. */
export function versionOfPeer(name: string): string {
  const path = join(peersFolder, 'node_modules', name, 'package.json');
  return JSON.parse(readFileSync(path, 'utf8')).version;
}

/** A program of `peers/`. */
export function peer(file: string, name = file, ...args: readonly string[]): Contestant {
  return { name, command: [process.execPath, join(peersFolder, `${file}.js`), ...args] };
}
