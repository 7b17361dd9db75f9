/**
 * Owns the load generator: wrk, or autocannon where there is no wrk. Knows no contestant and keeps
 * no figure.
 */
import { execFile, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { onLoadCore, type Command } from './cores.js';
import { wireText, type Operation } from './operations.js';

/** How those behave who ask. Each asks again once it has its answer. */
export interface Client {
  readonly name: string;
  readonly connections: number;
  /** It looks for answers all the time instead of being woken by them. */
  readonly neverSleeps?: true;
  /** It waits up to so many milliseconds before it asks again. */
  readonly pauseMs?: number;
}

/**
 * wrk has its core for itself and is quicker than the servers, so it sleeps until it is woken by an
 * answer, and the servers never wait: this is the client of the main figures. One that never sleeps
 * takes the cost of waking it out of them. One that pauses leaves the servers about half idle, so
 * that they too sleep and are woken.
 */
export const clients = {
  sleeping: { name: '64 connections', connections: 64 },
  alone: { name: '1 connection', connections: 1 },
  neverSleeping: { name: '64 connections that never sleep', connections: 64, neverSleeps: true },
  pausing: { name: '64 connections with pauses', connections: 64, pauseMs: 2 },
} as const satisfies Record<string, Client>;

/** What was done in a stretch of time. */
export interface Done {
  readonly requests: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Sends requests from the core of the load. */
export interface Load {
  /** Which one it is, with its version. */
  readonly name: string;
  /** Whether there is such a client here. */
  can(client: Client): boolean;
  /**
   * Sends an operation's requests for whole seconds.
   * @throws Error where any answer had the wrong kind of status, or did not come.
   */
  send(url: string, operation: Operation, client: Client, seconds: number): Promise<Done>;
}

const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));

/**
 * The load generator of this machine; it keeps its files in a folder that is there for as long as
 * it is used.
 */
export function openLoad(folder: string): Load {
  const wrk = /^wrk (?:debian\/)?(\S+)/.exec(
    spawnSync('wrk', ['-v'], { encoding: 'utf8' }).stdout ?? '',
  )?.[1];
  return wrk === undefined ? autocannon : wrkLoad(wrk, folder);
}

function wrkLoad(version: string, folder: string): Load {
  const preload = join(folder, 'never-sleeps.so');
  const canPreload =
    spawnSync('cc', [
      '-shared',
      '-fPIC',
      '-O2',
      '-o',
      preload,
      join(here, 'never-sleeps.c'),
      '-ldl',
    ]).status === 0;
  return {
    name: `wrk ${version}`,
    can: ({ neverSleeps }) => canPreload || neverSleeps === undefined,
    send: async (url, operation, { connections, neverSleeps, pauseMs }, seconds) => {
      const file = join(folder, 'requests');
      writeFileSync(file, operation.requests.map(wireText).join('\0'));
      const env = {
        ...process.env,
        LOAD_REQUESTS: file,
        ...(neverSleeps && { LD_PRELOAD: preload }),
        ...(pauseMs !== undefined && { LOAD_PAUSE_MS: String(pauseMs) }),
      };
      const [program, ...args] = onLoadCore([
        'wrk',
        '-t1',
        `-c${connections}`,
        `-d${seconds}s`,
        '-s',
        join(here, 'load.lua'),
        url,
      ]);
      const { stdout } = await run(program, args, { env });
      const { requests, microseconds, refused, broken, p50Us, p99Us } = JSON.parse(
        stdout.split('\n').find((line) => line.startsWith('{')) ?? '',
      );
      check(operation, { requests, refused, broken });
      return { requests, seconds: microseconds / 1e6, p50Ms: p50Us / 1000, p99Ms: p99Us / 1000 };
    },
  };
}

/**
 * It is slower than the servers, so that it never sleeps and they do; it sends an operation's first
 * request only.
 */
const autocannon: Load = {
  name: 'autocannon 8.0.0',
  can: ({ neverSleeps, pauseMs }) => neverSleeps === undefined && pauseMs === undefined,
  send: async (url, operation, { connections }, seconds) => {
    const [program, ...args] = onLoadCore(autocannonCommand(url, operation, connections, seconds));
    const { stdout } = await run(program, args, { maxBuffer: 2 ** 24 });
    const { requests, duration, latency, non2xx, errors } = JSON.parse(stdout);
    check(operation, { requests: requests.total, refused: non2xx, broken: errors });
    return { requests: requests.total, seconds: duration, p50Ms: latency.p50, p99Ms: latency.p99 };
  },
};

function autocannonCommand(
  url: string,
  { requests: [request] }: Operation,
  connections: number,
  seconds: number,
): Command {
  if (request === undefined) throw new TypeError('an operation needs a request');
  const { method, path, key, body, closes } = request;
  const headers = [
    key && `Authorization=Bearer ${key}`,
    body && 'Content-Type=application/json',
    closes && 'Connection=close',
  ];
  const options = headers.flatMap((header) => (header ? ['-H', header] : []));
  if (body !== undefined) options.push('-b', body);
  return [
    'npx',
    '--yes',
    'autocannon@8.0.0',
    '--json',
    '-c',
    String(connections),
    '-d',
    String(seconds),
    '-m',
    method,
    ...options,
    url + path,
  ];
}

function check(
  { name, status }: Operation,
  { requests, refused, broken }: { requests: number; refused: number; broken: number },
): void {
  const expected = status === 'mixed' ? refused : status >= 400 ? requests : 0;
  if (requests === 0 || refused !== expected || broken > 0) {
    throw new Error(
      `${name}: of ${requests} answers ${refused} were errors, where ${expected} should be; ${broken} did not come`,
    );
  }
}
