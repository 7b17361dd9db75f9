/** Runs dist/server.js as a stranger would, from its start to its end. Knows what it prints and nothing of its inside. */
import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from './client.js';
import { hold, inTime, Violation, type Share } from './row.js';

export const apiKey = 'torture-key';
export const serverFile = fileURLToPath(new URL('../../dist/server.js', import.meta.url));

/** How a server is started. */
export interface StartOptions {
  /** A program and its arguments that run the server: `strace`, `prlimit`. */
  readonly under?: readonly string[];
  readonly args?: readonly string[];
  /** In place of the environment that gives it {@link apiKey}. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
}

/** A server's process, which ends with its row at the latest. */
export class Server {
  readonly ended: Promise<Ended>;
  /** Resolves once it listens; undefined where it ends before. */
  readonly listening: Promise<Client | undefined>;
  readonly log: string[] = [];
  #hasListened = false;
  readonly #child: ChildProcess;

  constructor(share: Share, path: string, { under = [], args: more = [], env = { PETSTORE_API_KEYS: apiKey } }: StartOptions = {}) {
    const { PATH = '' } = process.env;
    const [command = '', ...args] = [...under, process.execPath, serverFile, '--storage', `file:${path}`, '--port', '0', ...more];
    const child = spawn(command, args, { cwd: share.workFolder, env: { PATH, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    this.ended = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => resolve({ code, signal, stderr }));
    });
    this.listening = new Promise((resolve) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        this.log.push(line);
        const port = /"msg":"listening","url":"http:\/\/127\.0\.0\.1:([0-9]+)"/.exec(line)?.[1];
        if (port === undefined) return;
        this.#hasListened = true;
        resolve(new Client(Number(port), apiKey));
      });
      this.ended.then(
        () => resolve(undefined),
        () => resolve(undefined),
      );
    });
    share.onEnd(() => this.end('SIGKILL'));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Whether it has said by now that it listens. */
  get hasListened(): boolean {
    return this.#hasListened;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Nothing went wrong inside, as far as its log says. */
  holdNoError(): void {
    const errors = this.log.filter((line) => line.includes('"level":"error"'));
    hold(errors.length === 0, () => `the log tells of an error: ${errors.join('\n')}`);
  }

  /** Sends a signal and answers how the process ended. */
  async end(signal: NodeJS.Signals): Promise<Ended> {
    this.signal(signal);
    return this.ended;
  }
}

/** A server that listens, started without help; that it does is part of every claim. */
export async function started(share: Share, path: string, options?: StartOptions): Promise<{ readonly server: Server; readonly client: Client }> {
  const server = new Server(share, path, options);
  const client = await inTime(server.listening, 30_000, 'a start');
  if (client !== undefined) return { server, client };
  const { code, signal, stderr } = await server.ended;
  throw new Violation(`a start failed with ${code ?? signal}: ${stderr.trim()}`);
}
