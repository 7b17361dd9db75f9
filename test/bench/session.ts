/**
 * Owns what a run of the benchmark leaves behind: nothing. Servers and folders that it makes end
 * with it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster } from '../postgres/cluster.js';
import { WrongAnswer } from './answers.js';
import type { Contestant } from './contestants.js';
import { onServerCore, type Command } from './cores.js';
import { Measured } from './process.js';

/** A contestant that listens. */
export interface Server extends Contestant {
  readonly process: Measured;
  readonly url: string;
  /** Milliseconds from its process's start until it listened, where it says so. */
  readonly readyMs: number;
}

/** A stretch of the benchmark. */
export class Session {
  readonly #ends: (() => unknown)[] = [];

  /** A stretch within this one, which ends with it at the latest. */
  within(): Session {
    const session = new Session();
    this.#ends.push(() => session.end());
    return session;
  }

  /** Starts a server on the servers' core, and waits until it listens. */
  async start(contestant: Contestant): Promise<Server> {
    const process = this.run(onServerCore(contestant.command));
    const { url, readyMs } = await process.line('url');
    return { ...contestant, process, url: String(url), readyMs: Number(readyMs) };
  }

  /** Starts servers, one behind the other. */
  async startAll(contestants: readonly Contestant[]): Promise<readonly Server[]> {
    const servers: Server[] = [];
    for (const contestant of contestants) servers.push(await this.start(contestant));
    return servers;
  }

  /** Starts a process that ends with the session at the latest. */
  run(command: Command): Measured {
    const process = new Measured(command);
    this.#ends.push(() => process.end('SIGKILL'));
    return process;
  }

  /** A PostgreSQL that syncs every commit, in a folder of its own or in memory. */
  async cluster(folder?: string, environment: NodeJS.ProcessEnv = {}): Promise<Cluster> {
    // The cluster has our own environment.
    Object.assign(process.env, environment);
    const cluster = await Cluster.start(['fsync=on', 'synchronous_commit=on'], folder);
    for (const name of Object.keys(environment)) delete process.env[name];
    this.#ends.push(() => cluster.remove());
    return cluster;
  }

  /** Does work at the end, before that of what began earlier. */
  atEnd(work: () => unknown): void {
    this.#ends.push(work);
  }

  /** An empty folder, gone at the end; in TMPDIR, whose disk the durable figures are of. */
  folder(): string {
    const path = mkdtempSync(join(tmpdir(), 'petstore-bench-'));
    this.#ends.push(() => rmSync(path, { recursive: true, force: true }));
    return path;
  }

  /** Ends everything, the last first. */
  async end(): Promise<void> {
    for (let work = this.#ends.pop(); work !== undefined; work = this.#ends.pop()) await work();
  }
}

/**
 * Works in a session that ends with it, and with the process. A wrong answer ends it at once, with
 * one line that says whose.
 */
export async function sessionUntilEnd(work: (session: Session) => Promise<void>): Promise<void> {
  const session = new Session();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void session.end().then(() => process.exit(130)));
  try {
    await work(session);
  } catch (error) {
    if (!(error instanceof WrongAnswer)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  } finally {
    await session.end();
  }
}
