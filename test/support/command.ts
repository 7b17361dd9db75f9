/**
 * Runs command lines of dist/server.js one after the other in one child process, which the test
 * file shares. For some 340 command lines, that takes 37 s of processor time; a process each took
 * 73 s. Use `runServer` for tests of signals, standard streams, or several processes at once.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { childEnvironment } from './environment.js';
import type { CommandEnd, CommandMessage } from './command-lines.js';
import { type Ended, extension, extensionArgs, type RunOptions } from './process.js';

let shared: ChildProcess | undefined;
/** Settles once the last command line has ended. */
let last: Promise<unknown> = Promise.resolve();

after(async () => {
  if (shared === undefined || shared.exitCode !== null || shared.signalCode !== null) return;
  const ended = once(shared, 'exit');
  shared.disconnect();
  await ended;
});

/** Runs a command line to its end. `isGroup` has no effect. */
export function command(args: readonly string[], { cwd, env = {} }: RunOptions): Promise<Ended> {
  const ended = last.then(() => runNext({ args, cwd, env }));
  last = ended.catch(() => undefined);
  return ended;
}

async function runNext(line: CommandMessage): Promise<Ended> {
  shared ??= start();
  const child = shared;
  const end = await new Promise<CommandEnd>((resolve, reject) => {
    const gone = (): void =>
      reject(new Error(`the child process ended during ${JSON.stringify(line.args)}`));
    child.once('exit', gone);
    child.once('message', (message: CommandEnd) => {
      child.off('exit', gone);
      resolve(message);
    });
    child.send(line);
  });
  return { ...end, signal: null };
}

function start(): ChildProcess {
  return fork(join(import.meta.dirname, `command-lines${extension}`), {
    cwd: tmpdir(),
    env: childEnvironment(),
    execArgv: [...extensionArgs],
  });
}
