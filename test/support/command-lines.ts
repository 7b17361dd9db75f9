/**
 * The child process of `command`. It receives each command line as a message, runs it in this
 * process, and sends the exit code and the output.
 */
import { mock } from 'node:test';
import { fileURLToPath } from 'node:url';

/** A command line with its folder and environment, to which PATH is added. */
export interface CommandMessage {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<NodeJS.ProcessEnv>;
}

/** The result of a command line. */
export interface CommandEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Thrown by `process.exit`, in place of the end of the process. */
class Exit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

const [node = '', server = ''] = [
  process.execPath,
  fileURLToPath(new URL('../../dist/server.js', import.meta.url)),
];
const { PATH = '' } = process.env;
const exit = process.exit.bind(process);
/** Events whose listeners would end with a process of the command's own. */
const ownEvents = ['SIGHUP', 'SIGINT', 'SIGTERM', 'uncaughtException'];

process.once('disconnect', () => exit(0));
process.on('message', (line: CommandMessage) => {
  run(line).then(
    (end) => process.send?.(end),
    (error: unknown) => {
      console.error(error);
      exit(1);
    },
  );
});

async function run({ args, cwd, env }: CommandMessage): Promise<CommandEnd> {
  process.chdir(cwd);
  // The program reads its own name when it is loaded.
  process.argv = [node, server, ...args];
  process.env = { PATH, ...env };
  const intervals = mock.method(globalThis, 'setInterval');
  const [stdout, stderr] = [captured(process.stdout), captured(process.stderr)];
  process.exit = (code) => {
    throw new Exit(Number(code ?? 0));
  };
  let code: number;
  try {
    const { main } = await import('../../dist/cli/index.js');
    await main();
    code = Number(process.exitCode ?? 0);
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    code = error.code;
  } finally {
    process.exit = exit;
    process.exitCode = undefined;
    for (const { result } of intervals.mock.calls) clearInterval(result);
    for (const event of ownEvents) process.removeAllListeners(event);
    for (const stream of [process.stdout, process.stderr])
      stream.removeAllListeners('error').removeAllListeners('drain');
    mock.restoreAll();
  }
  return { code, stdout: stdout.join(''), stderr: stderr.join('') };
}

/** Captures the writes to a stream, and returns them as a growing list. */
function captured(stream: NodeJS.WriteStream): readonly string[] {
  const texts: string[] = [];
  mock.method(stream, 'write', (text: string, written?: () => void) => {
    texts.push(text);
    if (written !== undefined) process.nextTick(written);
    return true;
  });
  return texts;
}
