/** Owns the load generator, wrk. Knows no contestant and keeps no figure. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { WrongAnswer } from './answers.js';
import { onLoadCore } from './cores.js';
import { wireText, type Operation } from './operations.js';
import type { Server } from './session.js';

/** How those behave who ask. Each asks again once it has its answer. */
export interface Client {
  readonly name: string;
  readonly connections: number;
  /** It looks for answers all the time instead of being woken by them. */
  readonly neverSleeps?: true;
}

/**
 * wrk has its core for itself and is quicker than the servers, so it sleeps until it is woken by an
 * answer, and the servers never wait: this is the client of the main figures. One that never sleeps
 * takes the cost of waking it out of them.
 */
export const clients = {
  sleeping: { name: '64 connections', connections: 64 },
  alone: { name: '1 connection', connections: 1 },
  neverSleeping: { name: '64 connections that never sleep', connections: 64, neverSleeps: true },
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
  /**
   * Sends an operation's requests for whole seconds.
   * @throws WrongAnswer where any answer had the wrong kind of status, or did not come.
   */
  send(
    server: Pick<Server, 'name' | 'url'>,
    operation: Operation,
    client: Client,
    seconds: number,
  ): Promise<Done>;
}

const mostTries = 3;
const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));

/** wrk, which keeps its files in a folder that is there for as long as it is used. */
export function openLoad(folder: string): Load {
  const { stdout } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  const version = /^wrk (?:debian\/)?(\S+)/.exec(stdout ?? '')?.[1];
  if (version === undefined) throw new Error('the benchmark needs the program wrk');
  return {
    name: `wrk ${version}`,
    send: async ({ name, url }, operation, { connections, neverSleeps }, seconds) => {
      const file = join(folder, 'requests');
      writeFileSync(file, operation.requests.map(wireText).join('\0'));
      const env = {
        ...process.env,
        LOAD_REQUESTS: file,
        ...(neverSleeps && { LD_PRELOAD: preload(folder, 'never-sleeps') }),
      };
      const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', join(here, 'load.lua')];
      const [program, ...args] = onLoadCore(['wrk', ...options, url]);
      // Where the machine has no time for us, a slice may end without a single answer.
      for (let tries = 1; ; tries++) {
        const { stdout } = await run(program, args, { env });
        const { requests, microseconds, refused, broken, p50Us, p99Us } = JSON.parse(
          stdout.split('\n').find((line) => line.startsWith('{')) ?? '',
        );
        if (requests === 0 && broken === 0 && tries < mostTries) continue;
        check(name, operation, { requests, refused, broken });
        return { requests, seconds: microseconds / 1e6, p50Ms: p50Us / 1000, p99Ms: p99Us / 1000 };
      }
    },
  };
}

/** A library of ours for LD_PRELOAD, from its C source beside this module. */
export function preload(folder: string, name: string): string {
  const path = join(folder, `${name}.so`);
  const source = join(here, `${name}.c`);
  if (!existsSync(path))
    execFileSync('cc', ['-shared', '-fPIC', '-O2', '-o', path, source, '-ldl']);
  return path;
}

function check(
  server: string,
  { name, status }: Operation,
  { requests, refused, broken }: { requests: number; refused: number; broken: number },
): void {
  const expected = status === 'mixed' ? refused : status >= 400 ? requests : 0;
  if (requests === 0 || refused !== expected || broken > 0) {
    throw new WrongAnswer(
      `${server}, ${name}: of ${requests} answers ${refused} were errors, where ${expected} should be; ${broken} did not come`,
    );
  }
}
