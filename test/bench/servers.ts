/**
 * Owns contestants that listen: started on a core of their own, asked, and held to the same
 * answers. Knows no figure.
 */
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { reasonOf } from '../../dist/index.js';
import { atEnd, Stretch, type Ending } from '../support/at-end.js';
import { Caller, type Answer } from '../support/client.js';
import { cpuSecondsOf } from '../support/kernel.js';
import { root, StartedProcess } from '../support/process.js';
import { environment, type Command, type Contestant } from './contestants.js';
import { draftOf, operation, post, type Operation } from './operations.js';

const lastCore = cpus().length - 1;
const canPin = spawnSync('taskset', ['-V']).status === 0;

/** Who runs where, in words. */
export const pinning = canPin
  ? `servers on core 0, the load on core ${lastCore} of ${lastCore + 1}`
  : 'not pinned to cores (no taskset)';

/** A command on the core of the load, or on that of the servers: they never wait for each other. */
export function pinned(command: Command, whose: 'load' | 'servers'): Command {
  return canPin ? ['taskset', '-c', String(whose === 'load' ? lastCore : 0), ...command] : command;
}

/** A process on the servers' core. */
export class Measured extends StartedProcess {
  constructor(t: Ending, command: Command) {
    const [program, ...args] = pinned(command, 'servers');
    super(program, args, { cwd: root, env: environment });
    atEnd(t, () => this.end('SIGKILL'));
  }

  /**
   * The first line that it prints with this member, as an object.
   * @throws Error where it ends without one.
   */
  async line(member: string): Promise<Readonly<Record<string, unknown>>> {
    const text = await this.found((line) => (line.includes(`"${member}":`) ? line : undefined));
    if (text === undefined)
      throw new Error(`${this.child.spawnargs.join(' ')} ended, and printed only: ${this.output}`);
    return JSON.parse(text);
  }

  /** Processor time so far, in seconds. */
  get cpuSeconds(): number {
    return cpuSecondsOf(this.pid);
  }
}

/** A contestant that listens. */
export interface Server extends Contestant {
  readonly process: Measured;
  readonly url: string;
  /** Milliseconds from its process's start until it listened, where it says so. */
  readonly readyMs: number;
}

/** Starts a contestant, and waits until it listens. */
export async function startContestant(t: Ending, contestant: Contestant): Promise<Server> {
  const process = new Measured(t, contestant.command);
  const { url, readyMs } = await process.line('url');
  return { ...contestant, process, url: String(url), readyMs: Number(readyMs) };
}

/** Starts contestants, one behind the other. */
export async function startContestants(
  t: Ending,
  contestants: readonly Contestant[],
): Promise<readonly Server[]> {
  const servers: Server[] = [];
  for (const contestant of contestants) servers.push(await startContestant(t, contestant));
  return servers;
}

/** Works in a stretch that ends with it, and with the process. */
export async function inStretch(work: (stretch: Stretch) => Promise<void>): Promise<void> {
  const stretch = new Stretch();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void stretch.end().then(() => process.exit(130)));
  try {
    await work(stretch);
  } catch (error) {
    // One line says whose it is.
    if (!(error instanceof WrongAnswer)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  } finally {
    await stretch.end();
  }
}

/** A contestant answers what it must not; the message is one line that names it. */
export class WrongAnswer extends Error {
  override readonly name = 'WrongAnswer';
}

/** How long a contestant may take over one answer. */
const patienceMs = 10_000;

type Asked = Pick<Server, 'name' | 'url' | 'isBare'>;

/**
 * The answers of a server to an operation's requests, which go one behind the other.
 * @throws WrongAnswer for the first that has not its status, or does not come.
 */
export async function answersOf(
  server: Asked,
  { name, requests, status }: Operation,
): Promise<readonly Answer[]> {
  const wanted = server.isBare ? 200 : status;
  const caller = new Caller(Number(new URL(server.url).port));
  const answers: Answer[] = [];
  try {
    for (const bytes of requests) {
      const answer = await caller.ask(bytes, patienceMs).catch((error: unknown) => {
        throw new WrongAnswer(`${server.name} does not answer ${name}: ${reasonOf(error)}`);
      });
      if (answer === undefined) throw new WrongAnswer(`${server.name} does not answer ${name}`);
      if (answer.status !== wanted)
        throw new WrongAnswer(
          `${server.name} answers ${name} with ${answer.status}, not ${wanted}`,
        );
      answers.push(answer);
    }
  } finally {
    caller.end();
  }
  return answers;
}

/** Adds 1,000 animals one behind the other, so that all servers give them the same ids. */
export async function fill(...servers: readonly Asked[]): Promise<void> {
  const requests = Array.from({ length: 1_000 }, (_, index) => post(draftOf(index + 1)));
  for (const server of servers)
    if (!server.isBare)
      await answersOf(server, operation('an animal that is added', 201, ...requests));
}

/**
 * Compares what servers answer to operations: the status always, the animals too. The first that is
 * not bare is what the others are held against.
 * @throws WrongAnswer for the first difference.
 */
export async function proveSameAnswers(
  servers: readonly Asked[],
  operations: readonly Operation[],
): Promise<void> {
  for (const operation of operations) {
    const first = { ...operation, requests: operation.requests.slice(0, 1) };
    let expected: unknown;
    for (const server of servers) {
      const [answer] = await answersOf(server, first);
      if (answer === undefined || server.isBare || answer.status >= 400) continue;
      const body: unknown = JSON.parse(answer.body);
      expected ??= body;
      if (!isDeepStrictEqual(body, expected))
        throw new WrongAnswer(
          `${server.name} answers ${first.name} with another body than the others: ${answer.body.slice(0, 200)}`,
        );
    }
  }
}
