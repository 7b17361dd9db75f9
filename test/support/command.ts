/**
 * Runs command lines of dist/server.js that end by themselves: one after the other in one process,
 * which the whole test file shares. There are some 340; a process for each took 73 s of processor
 * time in the eleven files that have them, instead of 37, of 200 in all. What only a process of its
 * own shows (signals, standard streams, what keeps it alive, several at once) is for `run`.
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
/** Ends behind the last command line that was given. */
let last: Promise<unknown> = Promise.resolve();

after(async () => {
  if (shared === undefined || shared.exitCode !== null || shared.signalCode !== null) return;
  const ended = once(shared, 'exit');
  shared.disconnect();
  await ended;
});

/** Runs a command line to its end. @param options Its `isGroup` means nothing here. */
export function command(args: readonly string[], { cwd, env = {} }: RunOptions): Promise<Ended> {
  const ended = last.then(() => runNext({ args, cwd, env }));
  last = ended.catch(() => undefined);
  return ended;
}

async function runNext(line: CommandMessage): Promise<Ended> {
  shared ??= start();
  const child = shared;
  const end = await new Promise<CommandEnd>((resolve, reject) => {
    const gone = (): void => reject(new Error(`the process ended at ${JSON.stringify(line.args)}`));
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
