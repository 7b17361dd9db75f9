/** Rejects settings and operands with stray characters, such as quotes or trailing blanks. */
import { quote, refuse } from './output.js';

/** The value of an option, with its source. */
export interface Setting {
  readonly text: string;
  /** The flag, variable or operand that gave the value, such as `--port` or `PORT`. */
  readonly from: string;
  /** True if messages must not contain the value. */
  readonly isSecret?: boolean;
}

/**
 * The kind of a text. A `storage` is `file:PATH` or a database URL, a `plugin` may be a path, and a
 * `text` is another URL.
 */
export type TextKind = 'path' | 'plugin' | 'storage' | 'key' | 'text';

/** A problem with a text, and the hint if it is not "remove it". */
interface Flaw {
  readonly problem: string;
  readonly hint?: string;
}

/** The longest path, and the longest name in a path, of Linux and macOS, in bytes. */
const maxPathBytes = 4_095;
const maxNameBytes = 255;

/** Control characters and invisible characters, except the joiners that some scripts need. */
const hidden = /[\p{Cc}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/u;

/** Quotes, except for an apostrophe within a word. */
const quotes = /["`“”„«»]|(?<![\p{L}\p{N}])['‘’]|['‘’](?![\p{L}\p{N}])/u;

/**
 * Returns the setting if its text has no stray character, which would silently name another file,
 * key or address (C76).
 *
 * @throws Refusal with the source, and with the text unless it is secret
 */
export function checkText(setting: Setting, kind: TextKind): Setting {
  const { text, from, isSecret = kind === 'key' } = setting;
  const path = pathIn(text, kind);

  const flaw =
    hiddenFlaw(text) ??
    quoteFlaw(text, kind) ??
    (path === undefined ? undefined : pathFlaw(path, kind));
  const checked = { text, from, isSecret: isSecret || (kind === 'storage' && path === undefined) };
  if (flaw === undefined) return checked;

  const { problem, hint = 'remove it' } = flaw;
  const value = checked.isSecret ? '' : `: ${quote(text)}`;
  refuse(`${from} ${problem}${value}; ${hint}`);
}

/**
 * Checks an operand that is a path, and returns it.
 *
 * @throws Refusal
 */
export function readPath(text: string, from: string): string {
  return checkText({ text, from }, 'path').text;
}

/** Returns the path in a text; undefined if the text does not contain a path. */
function pathIn(text: string, kind: TextKind): string | undefined {
  if (kind === 'path' || kind === 'plugin') return text;
  return kind === 'storage' && text.startsWith('file:') ? text.slice('file:'.length) : undefined;
}

/** Returns a URL without the user and the password. */
function withoutUser(url: string): string {
  return url.replace(/:\/\/.*@/s, '://');
}

function hiddenFlaw(text: string): Flaw | undefined {
  // Node has replaced these bytes in the command line, so that the name does not find the file.
  if (text.includes('\ufffd'))
    return { problem: 'has bytes that are not UTF-8', hint: 'rename the file to a UTF-8 name' };
  if (text.endsWith('\r'))
    return {
      problem: 'has a carriage return at its end',
      hint: 'write the file that sets it with LF instead of CR LF',
    };
  if (/^\s|\s$/.test(text)) return { problem: 'has a blank at one end' };
  if (hidden.test(text)) return { problem: 'has a control character or an invisible character' };
  if (/\s#\s/.test(text))
    return { problem: 'has a comment at its end', hint: 'move the comment to its own line' };
  return undefined;
}

function quoteFlaw(text: string, kind: TextKind): Flaw | undefined {
  // A key and the password of a URL may contain quotes.
  const hasQuotes =
    kind === 'key'
      ? /^(["'`]).*\1$/s.test(text)
      : quotes.test(pathIn(text, kind) ?? withoutUser(text));

  if (!hasQuotes) return undefined;
  return { problem: 'has a quote', hint: 'remove it, because no shell reads this value' };
}

/** A flaw of each path that matches the pattern. */
interface PathFlaw extends Flaw {
  readonly pattern: RegExp;
}

const pathFlaws: readonly PathFlaw[] = [
  { pattern: /(^|\/)\s|\s\//, problem: 'has a blank at one end of a name' },
  { pattern: /[,;]$/, problem: 'has a comma or a semicolon at its end' },
  {
    // On Windows, a backslash separates names.
    pattern: process.platform === 'win32' ? /(?!)/ : /\\/,
    problem: 'has a backslash',
    hint: 'write / between names, and blanks without a backslash',
  },
  { pattern: /^-$/, problem: 'must be a file', hint: 'write ./- for a file with this name' },
  {
    pattern: /^~/,
    problem: 'begins with ~, which only a shell replaces',
    hint: 'write the path of the home folder, which is $HOME in a shell, or ./~',
  },
  {
    pattern: /^\$\{?\w|^%\w+%/,
    problem: 'begins with a variable, which only a shell replaces',
    hint: 'write its value',
  },
  {
    // Within a path, a lowercase word after $ may be part of a name.
    pattern: /\$\{\w|\$[A-Z_]{2}|\$\(/,
    problem: 'has a variable or a command, which only a shell replaces',
    hint: 'write its value',
  },
];

/** The text after `file:` in a URL: a host, or a path with percent-encoded bytes. */
const urlForm = /^\/\/[^/]|^\/\/\/.*%[\da-f]{2}/i;

function pathFlaw(path: string, kind: TextKind): Flaw | undefined {
  if (path === '' && kind === 'path') return { problem: 'is empty', hint: 'name a file' };
  if (kind === 'path' && path.startsWith('file:'))
    return { problem: 'must be a path', hint: 'write it without file:, or with ./ before it' };
  if (kind === 'storage' && urlForm.test(path))
    return {
      problem: 'must be file: and a path, not a URL',
      hint: 'write file:PATH, such as file:a.jsonl',
    };

  const isTooLong = Buffer.byteLength(path) > maxPathBytes;
  if (isTooLong || path.split('/').some((name) => Buffer.byteLength(name) > maxNameBytes))
    return {
      problem: 'is longer than the system allows',
      hint: `use at most ${maxPathBytes} bytes, and ${maxNameBytes} in each name`,
    };
  return pathFlaws.find(({ pattern }) => pattern.test(path));
}
