/** The load generator wrk. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Ending } from '../support/at-end.js';
import { callersEnvironment } from '../support/environment.js';
import { folder } from '../support/process.js';
import type { Operation } from './operations.js';
import { pinned, WrongResponse, type Server } from './servers.js';

/** The clients of a load. Each sends its next request once it has its response. */
export interface Clients {
  readonly name: string;
  readonly connections: number;
  /** True if the clients poll for responses and never sleep. */
  readonly neverSleep?: boolean;
  /**
   * The time for which they send, in whole seconds. A response may then take 60 s.
   * @defaultValue 1, the minimum of wrk; a response may take 2 s
   */
  readonly seconds?: number;
}

/**
 * The kinds of clients. The main figures use `sleeping`: wrk has a core of its own and is faster
 * than the servers, so it sleeps until a response wakes it. `neverSleeping` removes the cost of
 * waking.
 */
export const clients = {
  sleeping: { name: '64 connections', connections: 64 },
  alone: { name: '1 connection', connections: 1 },
  neverSleeping: { name: '64 connections that never sleep', connections: 64, neverSleep: true },
} satisfies Record<string, Clients>;

/** The result of a load. */
export interface LoadResult {
  readonly requests: number;
  /** The number of responses that are errors. */
  readonly refused: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** A load generator, which runs on a core of its own. */
export interface Load {
  /** The program with its version. */
  readonly name: string;
  /**
   * Sends the requests of an operation.
   * @throws WrongResponse if a response is missing, or is an error instead of a success or vice
   * versa
   */
  send(
    server: Pick<Server, 'name' | 'url'>,
    operation: Operation,
    clients: Clients,
  ): Promise<LoadResult>;
}

const mostTries = 3;
const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));

/** Returns wrk as a load generator. Its files are removed at the end of `t`. */
export function openLoad(t: Ending): Load {
  const version = /^wrk (?:debian\/)?(\S+)/.exec(
    spawnSync('wrk', ['-v'], { encoding: 'utf8' }).stdout ?? '',
  )?.[1];
  if (version === undefined) throw new Error('the benchmark needs the program wrk');
  const file = join(folder(t), 'requests');
  let neverSleeps: string | undefined;
  return {
    name: `wrk ${version}`,
    send: async ({ name, url }, operation, { connections, neverSleep, seconds }) => {
      writeFileSync(file, operation.requests.join('\0'));
      const env = {
        ...callersEnvironment,
        LOAD_REQUESTS: file,
        ...(neverSleep && { LD_PRELOAD: (neverSleeps ??= preload(folder(t), 'never-sleeps')) }),
      };
      const duration = `-d${seconds ?? 1}s`;
      const options = ['-t1', `-c${connections}`, duration, '-s', join(here, 'load.lua')];
      if (seconds !== undefined) options.push('--timeout=60s');
      const [program, ...args] = pinned(['wrk', ...options, url], 'load');
      // On a busy machine a slice may end without any response.
      for (let tries = 1; ; tries++) {
        const { stdout } = await run(program, args, { env });
        const { requests, microseconds, refused, broken, p50Us, p99Us } = JSON.parse(
          stdout.split('\n').find((line) => line.startsWith('{')) ?? '',
        );
        if (requests === 0 && broken === 0 && tries < mostTries) continue;
        const { status } = operation;
        const isRight = status === 'mixed' || refused === (status < 400 ? 0 : requests);
        if (requests === 0 || broken > 0 || !isRight)
          throw new WrongResponse(
            `${name}, ${operation.name}, ${status}: ${refused} of ${requests} responses were errors, ${broken} were missing`,
          );
        const requestsPerSecond = (1e6 * requests) / microseconds;
        return { requests, refused, requestsPerSecond, p50Ms: p50Us / 1000, p99Ms: p99Us / 1000 };
      }
    },
  };
}

/** Compiles a C source beside this module to a library for LD_PRELOAD, and returns its path. */
export function preload(into: string, name: string): string {
  const path = join(into, `${name}.so`);
  const source = join(here, `${name}.c`);
  execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', path, source, '-ldl']);
  return path;
}
