/** The servers that the benchmark compares, and how to start each. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { callersEnvironment } from '../support/environment.js';
import { root } from '../support/process.js';
import { benchmarkKey } from './operations.js';

/** The folder of the other servers. */
export const peersFolder = join(root, 'test/bench/peers');

/** A program and its arguments. */
export type Command = readonly [string, ...string[]];

/** A server that can be started. It logs its `url` once it listens. */
export interface Contestant {
  readonly name: string;
  readonly command: Command;
  /** True if it sends the same 200 to each request. */
  readonly isBare?: true;
}

/** The environment of each server, besides PATH. */
export const environment = { PETSTORE_API_KEYS: benchmarkKey, PORT: '0' };

/** Returns the petstore, started as usual. */
export function petstore(storage: string, name = 'petstore', checkout = root): Contestant {
  const server = join(checkout, 'dist/server.js');
  return { name, command: [process.execPath, server, '--log', 'info', '--storage', storage] };
}

/** Returns the petstore of another checkout, which is built and named by BEFORE. */
export function petstoreBefore(storage: string): Contestant {
  const checkout = callersEnvironment['BEFORE'];
  if (checkout === undefined) throw new RangeError('BEFORE=FOLDER must name a checkout');
  return petstore(storage, 'petstore before', checkout);
}

/** `node:http` that sends a fixed response of 80 bytes. */
export const bare: Contestant = { ...peer('bare', 'bare node:http'), isBare: true };

/**
 * `node:http` that sends as many bytes as the petstore and does nothing else. No server on
 * `node:http` can be faster.
 */
export const limit: Contestant = { ...peer('limit'), isBare: true };

/**
 * Returns a second copy of the first contestant. Its ratio should be 1, and its distance from 1 is
 * the error of all ratios.
 */
export function again([first = bare]: readonly Contestant[]): Contestant {
  return { ...first, name: `${first.name} again` };
}

/** The petstore's `handler` under `http.createServer`. */
export const handler = peer('handler');

export const fastify = peer('fastify');
export const bun: Contestant = {
  name: 'bun',
  command: [join(peersFolder, 'node_modules/.bin/bun'), join(peersFolder, 'bun.js')],
};

/** The other servers, in the versions of `peers/package-lock.json`. */
export const peers: readonly Contestant[] = [
  fastify,
  ...['hono', 'express', 'json-server'].map((name) => peer(name)),
  bun,
];

/**
 * Returns the petstore over better-sqlite3 in two modes; nothing if better-sqlite3 is not built for
 * this Node.
 */
export function sqlite(folder: string): readonly Contestant[] {
  const script = `require('better-sqlite3')(':memory:')`;
  const { status } = spawnSync(process.execPath, ['-e', script], { cwd: peersFolder });
  return ['batched', 'single']
    .filter(() => status === 0)
    .map((mode) => peer('sqlite', `better-sqlite3, ${mode}`, `${folder}/${mode}.db`, mode));
}

/** Returns the installed version of a package of the peers. */
export function versionOfPeer(name: string): string {
  const path = join(peersFolder, 'node_modules', name, 'package.json');
  return JSON.parse(readFileSync(path, 'utf8')).version;
}

/** Returns the contestant of a program in `peers/`. */
export function peer(file: string, name = file, ...args: readonly string[]): Contestant {
  return { name, command: [process.execPath, join(peersFolder, `${file}.js`), ...args] };
}
