/**
 * Owns who runs on which core: servers on the first, the load on the last, so that they never wait
 * for each other.
 */
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';

/** A program and its arguments. */
export type Command = readonly [string, ...string[]];

const lastCore = cpus().length - 1;
const canPin = spawnSync('taskset', ['-V']).status === 0;

/** The command, on the core of the servers. */
export function onServerCore(command: Command): Command {
  return on(0, command);
}

/** The command, on the core of the load. */
export function onLoadCore(command: Command): Command {
  return on(lastCore, command);
}

/** What was done, in words. */
export const pinning = !canPin
  ? 'not pinned to cores (no taskset)'
  : lastCore === 0
    ? 'all on one core'
    : `servers on core 0, the load on core ${lastCore} of ${lastCore + 1}`;

function on(core: number, command: Command): Command {
  return canPin ? ['taskset', '-c', String(core), ...command] : command;
}
