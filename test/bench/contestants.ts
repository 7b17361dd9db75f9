/** Owns what is measured: how each server is started. Knows no operation. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from './cores.js';
import { apiKey } from './operations.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const peersFolder = join(root, 'test/bench/peers');

/** A server that can be started: it logs its url once it listens. */
export interface Contestant {
  readonly name: string;
  readonly command: Command;
  /** It answers everything with the same 200. */
  readonly isBare?: true;
}

/** What each gets to know by its environment. */
export const environment = {
  PATH: process.env['PATH'] ?? '',
  PETSTORE_API_KEYS: apiKey,
  PORT: '0',
};

/** The petstore as anyone starts it. */
export function petstore(storage: string, name = 'petstore', checkout = root): Contestant {
  return {
    name,
    command: [
      process.execPath,
      join(checkout, 'dist/server.js'),
      '--log',
      'info',
      '--storage',
      storage,
    ],
  };
}

/**
 * The petstore of another checkout, which BEFORE names and which is built; undefined without it.
 */
export function petstoreBefore(storage: string): Contestant | undefined {
  const checkout = process.env['BEFORE'];
  return checkout === undefined ? undefined : petstore(storage, 'petstore before', checkout);
}

/** `node:http` that answers 80 fixed bytes. */
export const bare: Contestant = { ...peer('bare'), name: 'bare node:http', isBare: true };

/** Bare once more: how far its ratio is from 1 is how far all others may be off. */
export const bareAgain: Contestant = { ...bare, name: 'bare again' };

/**
 * `node:http` that sends as many bytes as the petstore and does nothing else: what no server on it
 * can exceed.
 */
export const limit: Contestant = { ...peer('limit'), name: 'limit of node:http', isBare: true };

export const fastify = peer('fastify');
export const bun: Contestant = {
  name: 'bun',
  command: [join(peersFolder, 'node_modules/.bin/bun'), join(peersFolder, 'bun.js')],
};

/** The peers that were installed from `peers/package-lock.json`. */
export const peers: readonly Contestant[] = [
  fastify,
  peer('hono'),
  peer('express'),
  peer('json-server'),
  bun,
];

/** A stub that openapi-backend makes of the document at this address. */
export function stub(document: string): Contestant {
  const { command } = peer('openapi-backend');
  return { name: 'openapi-backend', command: [...command, document] };
}

/** The petstore over better-sqlite3, `batched` or `single`; undefined where that was not built. */
export function sqlite(path: string, mode: 'batched' | 'single'): Contestant | undefined {
  const { command } = peer('sqlite');
  // npm takes it away again where it could not be built.
  const isBuilt = existsSync(join(peersFolder, 'node_modules/better-sqlite3'));
  return isBuilt
    ? { name: `better-sqlite3, ${mode}`, command: [...command, path, mode] }
    : undefined;
}

/** A program that only parses a file's lines. */
export function lineParser(path: string): Command {
  return [...peer('parse-lines').command, path];
}

function peer(name: string): Contestant {
  return { name, command: [process.execPath, join(peersFolder, `${name}.js`)] };
}
