/** Owns the load generator, wrk. Knows no contestant and keeps no figure. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Ending } from '../support/at-end.js';
import { callersEnvironment } from '../support/environment.js';
import { folder } from '../support/process.js';
import type { Operation } from './operations.js';
import { pinned, WrongAnswer, type Server } from './servers.js';

/** How those behave who ask. Each asks again once it has its answer. */
export interface Askers {
  readonly name: string;
  readonly connections: number;
  /** They look for answers all the time instead of being woken by them. */
  readonly neverSleep?: boolean;
}

/**
 * wrk has its core for itself and is quicker than the servers, so it sleeps until it is woken by an
 * answer, and the servers never wait: these are the askers of the main figures. Some that never
 * sleep take the cost of waking them out of those.
 */
export const askers = {
  sleeping: { name: '64 connections', connections: 64 },
  alone: { name: '1 connection', connections: 1 },
  neverSleeping: { name: '64 connections that never sleep', connections: 64, neverSleep: true },
} satisfies Record<string, Askers>;

/** What was done in a stretch of time. */
export interface Done {
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Sends requests from the core of the load. */
export interface Load {
  /** Which one it is, with its version. */
  readonly name: string;
  /**
   * Sends an operation's requests for a second: wrk knows no less.
   * @throws WrongAnswer where any answer had the wrong kind of status, or did not come.
   */
  send(server: Pick<Server, 'name' | 'url'>, operation: Operation, askers: Askers): Promise<Done>;
}

const mostTries = 3;
const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));

/** wrk, which keeps its files for as long as it is used. */
export function openLoad(t: Ending): Load {
  const version = /^wrk (?:debian\/)?(\S+)/.exec(
    spawnSync('wrk', ['-v'], { encoding: 'utf8' }).stdout ?? '',
  )?.[1];
  if (version === undefined) throw new Error('the benchmark needs the program wrk');
  const file = join(folder(t), 'requests');
  let neverSleeps: string | undefined;
  return {
    name: `wrk ${version}`,
    send: async ({ name, url }, operation, { connections, neverSleep }) => {
      writeFileSync(file, operation.requests.join('\0'));
      const env = {
        ...callersEnvironment,
        LOAD_REQUESTS: file,
        ...(neverSleep && { LD_PRELOAD: (neverSleeps ??= preload(folder(t), 'never-sleeps')) }),
      };
      const options = ['-t1', `-c${connections}`, '-d1s', '-s', join(here, 'load.lua')];
      const [program, ...args] = pinned(['wrk', ...options, url], 'load');
      // Where the machine has no time for us, a slice may end without a single answer.
      for (let tries = 1; ; tries++) {
        const { stdout } = await run(program, args, { env });
        const { requests, microseconds, refused, broken, p50Us, p99Us } = JSON.parse(
          stdout.split('\n').find((line) => line.startsWith('{')) ?? '',
        );
        if (requests === 0 && broken === 0 && tries < mostTries) continue;
        const { status } = operation;
        const isRight = status === 'mixed' || refused === (status < 400 ? 0 : requests);
        if (requests === 0 || broken > 0 || !isRight)
          throw new WrongAnswer(
            `${name}, ${operation.name}, ${status}: of ${requests} answers ${refused} were errors; ${broken} did not come`,
          );
        const requestsPerSecond = (1e6 * requests) / microseconds;
        return { requests, requestsPerSecond, p50Ms: p50Us / 1000, p99Ms: p99Us / 1000 };
      }
    },
  };
}

/** A library of ours for LD_PRELOAD, from its C source beside this module. */
export function preload(into: string, name: string): string {
  const path = join(into, `${name}.so`);
  const source = join(here, `${name}.c`);
  execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', path, source, '-ldl']);
  return path;
}
