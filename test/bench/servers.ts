/** Starts contestants on a core of their own, and compares their responses. */
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../dist/index.js';
import { atEnd, CleanupScope, type Ending } from '../support/at-end.js';
import { SerialClient, type RawResponse } from '../support/client.js';
import { cpuSecondsOf } from '../support/kernel.js';
import { root, StartedProcess } from '../support/process.js';
import { environment, type Command, type Contestant } from './contestants.js';
import { draftOf, operation, post, type Operation } from './operations.js';

const lastCore = cpus().length - 1;
const canPin = spawnSync('taskset', ['-V']).status === 0;

/** A description of the cores in use. */
export const pinning = canPin
  ? `servers on core 0, the load on core ${lastCore} of ${lastCore + 1}`
  : 'not pinned to cores (no taskset)';

/** Returns a command that runs on the core of the load or of the servers. */
export function pinned(command: Command, whose: 'load' | 'servers'): Command {
  return canPin ? ['taskset', '-c', String(whose === 'load' ? lastCore : 0), ...command] : command;
}

/** A process on the core of the servers. */
export class Measured extends StartedProcess {
  constructor(t: Ending, command: Command) {
    const [program, ...args] = pinned(command, 'servers');
    super(program, args, { cwd: root, env: environment });
    atEnd(t, () => this.end('SIGKILL'));
  }

  /**
   * Waits for the first JSON line with this member, and returns it.
   * @throws Error if the process ends first
   */
  async line(member: string): Promise<Readonly<Record<string, unknown>>> {
    const text = await this.findLine((line) => (line.includes(`"${member}":`) ? line : undefined));
    if (text === undefined)
      throw new Error(`${this.child.spawnargs.join(' ')} ended, and printed only: ${this.output}`);
    return JSON.parse(text);
  }

  /** The processor time so far, in seconds. */
  get cpuSeconds(): number {
    return cpuSecondsOf(this.pid);
  }
}

/** A contestant that listens. */
export interface Server extends Contestant {
  readonly process: Measured;
  readonly url: string;
  /** Milliseconds from the start of the process until it listened; NaN if it does not log them. */
  readonly readyMs: number;
}

/** Starts a contestant, and waits until it listens. */
export async function startContestant(t: Ending, contestant: Contestant): Promise<Server> {
  const process = new Measured(t, contestant.command);
  const { url, readyMs } = await process.line('url');
  return { ...contestant, process, url: String(url), readyMs: Number(readyMs) };
}

/** Starts contestants, one after the other. */
export async function startContestants(
  t: Ending,
  contestants: readonly Contestant[],
): Promise<readonly Server[]> {
  const servers: Server[] = [];
  for (const contestant of contestants) servers.push(await startContestant(t, contestant));
  return servers;
}

/** Runs `work`, and ends its scope afterwards or on a signal. */
export async function withCleanup(work: (scope: CleanupScope) => Promise<void>): Promise<void> {
  const scope = new CleanupScope();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void scope.end().then(() => process.exit(130)));
  try {
    await work(scope);
  } catch (error) {
    // The message names the contestant; a stack trace would not help.
    if (!(error instanceof WrongResponse)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  } finally {
    await scope.end();
  }
}

/** The error for a wrong response. Its message is one line that names the contestant. */
export class WrongResponse extends Error {
  override readonly name = 'WrongResponse';
}

/** The time limit for a response. */
const patienceMs = 10_000;

type TestedServer = Pick<Server, 'name' | 'url' | 'isBare'>;

/**
 * Sends the requests of an operation one after the other, and returns the responses.
 * @throws WrongResponse for the first response that is missing or has another status
 */
export async function responsesOf(
  server: TestedServer,
  { name, requests, status }: Operation,
): Promise<readonly RawResponse[]> {
  const wanted = server.isBare ? 200 : status;
  const caller = new SerialClient(Number(new URL(server.url).port));
  const responses: RawResponse[] = [];
  try {
    for (const bytes of requests) {
      const response = await caller.send(bytes, patienceMs).catch((error: unknown) => {
        throw new WrongResponse(`${server.name} does not respond to ${name}: ${reasonOf(error)}`);
      });
      if (response === undefined)
        throw new WrongResponse(`${server.name} does not respond to ${name}`);
      if (response.status !== wanted)
        throw new WrongResponse(
          `${server.name} responds to ${name} with ${response.status}, not ${wanted}`,
        );
      responses.push(response);
    }
  } finally {
    caller.end();
  }
  return responses;
}

/** Adds 1,000 pets one after the other, so that all servers assign the same ids. */
export async function fill(...servers: readonly TestedServer[]): Promise<void> {
  const requests = Array.from({ length: 1_000 }, (_, index) => post(draftOf(index + 1)));
  for (const server of servers)
    if (!server.isBare) await responsesOf(server, operation('POST of a pet', 201, ...requests));
}

/**
 * Compares the responses of servers to operations: the status of all, and the pets of servers that
 * are not bare.
 * @throws WrongResponse for the first difference
 */
export async function checkSameResponses(
  servers: readonly TestedServer[],
  operations: readonly Operation[],
): Promise<void> {
  for (const operation of operations) {
    const first = { ...operation, requests: operation.requests.slice(0, 1) };
    let expected: unknown;
    for (const server of servers) {
      const [response] = await responsesOf(server, first);
      if (response === undefined || server.isBare || response.status >= 400) continue;
      const body: unknown = JSON.parse(response.body);
      expected ??= body;
      if (!isDeepStrictEqual(body, expected))
        throw new WrongResponse(
          `${server.name} responds to ${first.name} with another body than the others: ${response.body.slice(0, 200)}`,
        );
    }
  }
}
