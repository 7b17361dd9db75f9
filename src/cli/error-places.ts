/** Finds the file and line of an error that loading a module threw. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { codeOf } from '../index.js';
import { detailOf } from '../errors.js';

/** The first line of the stack of a syntax error, if Node has put its place there. */
const firstLine = /^(file:\/\/\/.+|\/.+):(\d+)$/;
/** A stack frame in a file that is not Node's own. */
const frame = /^ +at (?:.+ \()?(file:\/\/\/.+|\/.+):(\d+):\d+\)?$/m;

/**
 * Returns the place of an error that `import(url)` threw, such as `/srv/plugin.js:3`: for errors in
 * the source, not for those that a module throws on purpose.
 */
export function placeOf(error: unknown, url: string): string | undefined {
  // Every stack begins with the message, which may have several lines.
  const [first = '', ...others] = detailOf(error).split('\n');
  if (firstLine.test(first)) return placeIn(firstLine.exec(first));
  if (error instanceof SyntaxError) return placeIn(syntaxErrorOf(url));

  const isMistake = error instanceof TypeError || error instanceof ReferenceError;
  return isMistake && codeOf(error) === undefined
    ? placeIn(frame.exec(others.join('\n')))
    : undefined;
}

/**
 * Finds the syntax error of an ES module or of one that it imports. Node keeps the place to itself
 * until such an error ends a process, so another process loads the module. Nothing is executed:
 * first all modules are parsed, and then the import of a name that is not there fails.
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
    // A process that must not start others does without the place.
    return null;
  }
}

function placeIn(match: RegExpExecArray | null): string | undefined {
  const [, file, line] = match ?? [];
  if (file === undefined) return undefined;
  return `${file.startsWith('file:') ? fileURLToPath(file) : file}:${line}`;
}
