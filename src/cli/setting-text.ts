/** Checks the texts of settings and operands for stray characters, and quotes them in messages. */
import { quote, refuse } from './output.js';

/** What an option was set to, and by what. */
export interface Setting {
  /** The value, as it was given. */
  readonly text: string;
  /** The flag, the variable or the operand that gave it, such as `--port` or `PORT`. */
  readonly from: string;
  /** True if no message may repeat the value. */
  readonly isSecret?: boolean;
}

/** What a text names. A `text` is a URL or an origin, a `storage` a database or `file:PATH`. */
export type TextKind = 'path' | 'storage' | 'key' | 'text';

/** What is wrong with a text, and how to write it. */
interface Flaw {
  readonly problem: string;
  readonly hint?: string;
}

/** The longest path, and the longest name in it, of Linux and macOS, in bytes. */
const maxPathBytes = 4_095;
const maxNameBytes = 255;

/** Control characters and those that are invisible, but not the joiners within some scripts. */
const hidden = /[\p{Cc}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/u;

/** Quotes, except for an apostrophe within a word. */
const quotes = /["`“”„«»]|(?<![\p{L}\p{N}])['‘’]|['‘’](?![\p{L}\p{N}])/u;

/**
 * Returns a setting, once its text is as the operator meant it: a stray character would silently
 * name another file, key or address (C76).
 *
 * @throws Refusal that names the source, and the text unless it is secret
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

  const { problem, hint = 'take it out' } = flaw;
  const value = checked.isSecret ? '' : `: ${quote(text)}`;
  refuse(`${from} ${problem}${value}; ${hint}`);
}

/**
 * Returns the path that an operand is.
 *
 * @throws Refusal
 */
export function readPath(text: string, from: string): string {
  return checkText({ text, from }, 'path').text;
}

/** Returns the path in a text; undefined if it holds none. */
function pathIn(text: string, kind: TextKind): string | undefined {
  if (kind === 'path') return text;
  return kind === 'storage' && text.startsWith('file:') ? text.slice('file:'.length) : undefined;
}

/** Returns a URL without the user and the password. */
function withoutUser(url: string): string {
  return url.replace(/:\/\/.*@/s, '://');
}

function hiddenFlaw(text: string): Flaw | undefined {
  // Node replaces such bytes when it reads the command line, so the file could not be found again.
  if (text.includes('\ufffd'))
    return { problem: 'has bytes that are not UTF-8', hint: 'rename it to a name in UTF-8' };
  if (text.endsWith('\r'))
    return {
      problem: 'has a carriage return at its end',
      hint: 'write the file that sets it with LF instead of CR LF',
    };
  if (/^\s|\s$/.test(text)) return { problem: 'has a blank at one end' };
  if (hidden.test(text)) return { problem: 'has a control character or an invisible one' };
  if (/\s#\s/.test(text))
    return { problem: 'has a comment at its end', hint: 'move the comment to its own line' };
  return undefined;
}

function quoteFlaw(text: string, kind: TextKind): Flaw | undefined {
  // A key may hold quotes, and so may the password of a URL.
  const hasQuotes =
    kind === 'key'
      ? /^(["'`]).*\1$/s.test(text)
      : quotes.test(pathIn(text, kind) ?? withoutUser(text));

  if (!hasQuotes) return undefined;
  return { problem: 'has a quote', hint: 'take it out, as no shell reads this value' };
}

/** A flaw of paths, and a pattern of the paths that have it. */
interface PathFlaw extends Flaw {
  readonly pattern: RegExp;
}

const pathFlaws: readonly PathFlaw[] = [
  { pattern: /(^|\/)\s|\s\//, problem: 'has a blank at one end of a name' },
  { pattern: /[,;]$/, problem: 'has a comma or a semicolon at its end' },
  {
    // On Windows, it stands between names.
    pattern: process.platform === 'win32' ? /(?!)/ : /\\/,
    problem: 'has a backslash',
    hint: 'write / between names, and blanks as they are',
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
];

/** Matches what stands behind `file:` in a URL: a host, or a path with percent-encoded bytes. */
const urlForm = /^\/\/[^/]|^\/\/\/.*%[\da-f]{2}/i;

function pathFlaw(path: string, kind: TextKind): Flaw | undefined {
  if (path === '' && kind === 'path') return { problem: 'is empty', hint: 'name a file' };
  if (kind === 'storage' && urlForm.test(path))
    return {
      problem: 'must hold a path, not a URL',
      hint: 'write file:PATH, such as file:a.jsonl',
    };

  const isTooLong = Buffer.byteLength(path) > maxPathBytes;
  if (isTooLong || path.split('/').some((name) => Buffer.byteLength(name) > maxNameBytes))
    return {
      problem: 'is longer than a path may be',
      hint: `use at most ${maxPathBytes} bytes, and ${maxNameBytes} in each name`,
    };
  return pathFlaws.find(({ pattern }) => pattern.test(path));
}
