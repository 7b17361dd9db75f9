/**
 * Runs dist/server.js as a stranger would, from its start to its end. Knows what it prints and
 * nothing of its inside.
 */
import { StartedProcess, serverFile } from '../support/process.js';
import { Client } from './client.js';
import { hold, inTime, Violation, type Share } from './row.js';

export const apiKey = 'torture-key';

/** How a server is started. */
export interface StartOptions {
  /** A program and its arguments that run the server: `strace`, `prlimit`. */
  readonly under?: readonly string[];
  readonly args?: readonly string[];
  /** In place of the environment that gives it {@link apiKey}. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A server's process, which ends with its row at the latest. */
export class Server extends StartedProcess {
  /** Resolves once it listens; undefined where it ends before. */
  readonly listening: Promise<Client | undefined>;

  constructor(
    share: Share,
    path: string,
    { under = [], args = [], env = { PETSTORE_API_KEYS: apiKey } }: StartOptions = {},
  ) {
    const storage = ['--storage', `file:${path}`, '--port', '0'];
    const [command = '', ...all] = [...under, process.execPath, serverFile, ...storage, ...args];
    super(command, all, { cwd: share.workFolder, env });
    this.listening = this.found(portIn).then((port) =>
      port === undefined ? undefined : new Client(port, apiKey),
    );
    share.onEnd(() => this.end('SIGKILL'));
  }

  /** The lines of its log so far. */
  get log(): readonly string[] {
    return this.lines;
  }

  /** Whether it has said by now that it listens. */
  get hasListened(): boolean {
    return this.lines.some((line) => portIn(line) !== undefined);
  }

  /** Nothing went wrong inside, as far as its log says. */
  holdNoError(): void {
    const errors = this.log.filter((line) => line.includes('"level":"error"'));
    hold(errors.length === 0, () => `the log tells of an error: ${errors.join('\n')}`);
  }
}

function portIn(line: string): number | undefined {
  const port = /"msg":"listening","url":"http:\/\/127\.0\.0\.1:([0-9]+)"/.exec(line)?.[1];
  return port === undefined ? undefined : Number(port);
}

/** A server that listens, started without help; that it does is part of every claim. */
export async function started(
  share: Share,
  path: string,
  options?: StartOptions,
): Promise<{ readonly server: Server; readonly client: Client }> {
  const server = new Server(share, path, options);
  const client = await inTime(server.listening, 30_000, 'a start');
  if (client !== undefined) return { server, client };
  const { code, signal, stderr } = await server.ended;
  throw new Violation(`a start failed with ${code ?? signal}: ${stderr.trim()}`);
}
