/** The system's own programs, and what to say where they cannot be had. */
import { execFileSync, spawnSync } from 'node:child_process';
import { Skip } from './row.js';

/** Runs a program to its end; answers its standard output, throws what it said where it fails. */
export function tool(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** @throws Skip that names the program that is missing. */
export function needPrograms(...programs: readonly string[]): void {
  const missing = programs.filter(
    (program) => spawnSync('sh', ['-c', 'command -v "$1"', 'sh', program]).status !== 0,
  );
  if (missing.length > 0) throw new Skip(`needs ${missing.join(', ')}`);
}

/** @throws Skip where this user may not mount. */
export function needRoot(): void {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new Skip('needs root on Linux, for mounts of its own');
}
