/** Finds the file and line of an error that `import` threw. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { codeOf } from '../index.js';
import { detailOf } from '../errors.js';

/** The first line of the stack of some syntax errors. */
const firstLine = /^(file:\/\/\/.+|\/.+):(\d+)$/;
/** A stack frame in a file, not in a module of Node. */
const frame = /^ +at (?:.+ \()?(file:\/\/\/.+|\/.+):(\d+):\d+\)?$/m;

/**
 * Returns the place of a mistake in the source, such as `/srv/plugin.js:3`. Returns undefined for
 * an error that the module throws on purpose.
 *
 * @param error The error that `import(url)` threw.
 */
export function placeOf(error: unknown, url: string): string | undefined {
  // The stack follows the message, which may have several lines.
  const [first = '', ...others] = detailOf(error).split('\n');
  if (firstLine.test(first)) return placeIn(firstLine.exec(first));
  if (error instanceof SyntaxError) return placeIn(syntaxErrorOf(url));

  const isMistake = error instanceof TypeError || error instanceof ReferenceError;
  return isMistake && codeOf(error) === undefined
    ? placeIn(frame.exec(others.join('\n')))
    : undefined;
}

/**
 * Finds the syntax error in an ES module or its imports. Node prints the place only when the error
 * ends a process, so a child process loads the module. No code runs: Node parses all modules, and
 * then the import of a missing name fails.
 */
function syntaxErrorOf(url: string): RegExpExecArray | null {
  const code = `import { 'no plugin exports this' as _ } from ${JSON.stringify(url)};`;
  try {
    const { stderr } = spawnSync(
      process.execPath,
      [...process.execArgv, '--input-type=module', '--eval', code],
      { encoding: 'utf8', timeout: 10_000, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    return /^(file:\/\/\/(?!.*\[eval\d*\]:).+):(\d+)$/m.exec(stderr);
  } catch {
    // The permission model may forbid child processes.
    return null;
  }
}

function placeIn(match: RegExpExecArray | null): string | undefined {
  const [, file, line] = match ?? [];
  if (file === undefined) return undefined;
  return `${file.startsWith('file:') ? fileURLToPath(file) : file}:${line}`;
}
