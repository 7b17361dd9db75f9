/** Output to the terminal: the log, the results of commands, refusals and progress. */
import { basename } from 'node:path';
import { codeOf, PetstoreError, reasonOf, type Log } from '../index.js';
import { denialOf } from '../errors.js';

/** An error in what the operator gave: exit 2. The message names it and says how to fix it. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** Throws a Refusal with this message. */
export function refuse(message: string): never {
  throw new Refusal(message);
}

/**
 * Runs `work` and returns its result. An error becomes a Refusal with the problem, the reason and a
 * hint. A Refusal and an error of a storage are rethrown.
 *
 * @throws Refusal, or PetstoreError `storage_…`
 */
export async function orRefuse<Value>(
  problem: string,
  hint: string,
  work: () => Value,
): Promise<Awaited<Value>> {
  try {
    return await work();
  } catch (error) {
    if (
      error instanceof Refusal ||
      (error instanceof PetstoreError && error.code.startsWith('storage_'))
    )
      throw error;
    const denial = denialOf(error);
    refuse(
      denial === undefined
        ? `${problem} (${plainReason(error)}); ${hint}`
        : `${problem}: ${denial}`,
    );
  }
}

/** Returns the message of an error. A system error has only its text: no errno, call or path. */
export function plainReason(error: unknown): string {
  if (codeOf(error) === 'EISDIR') return 'it is a folder';
  const reason = reasonOf(error);
  const isSystemError = error instanceof Error && 'syscall' in error;
  return isSystemError ? reason.replace(/^(?:\w+ )?[A-Z\d]+: (.*?)(?:, .*)?$/, '$1') : reason;
}

/** Control characters, line ends, and characters that change the writing direction. */
const unprintable = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Unprintable characters, and others that are invisible or look like a space. */
const unreadable = /(?! )[\p{Cc}\p{Cf}\p{Z}\ufffd]/gu;

/** Escapes the characters that would move a terminal's cursor or start a new line, as JSON does. */
export function printable(text: string): string {
  return text.replace(unprintable, escapeChar);
}

function escapeChar(char: string): string {
  const digits = (char.codePointAt(0) ?? 0).toString(16);
  return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
}

/**
 * Quotes a value for a message: at most 60 characters, with invisible characters escaped and
 * without the user and the password of a URL.
 */
export function quote(value: string): string {
  const text = /^file:|^[^:]*$/.test(value)
    ? value
    : value.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, '$1…@');
  const shown = /^.{60}(?=.)/su.exec(text)?.[0];
  return JSON.stringify(shown === undefined ? text : `${shown}…`).replace(unreadable, escapeChar);
}

/** Quotes a word of the command line, unless it is short and plain. */
export function quoteWord(word: string): string {
  return /^[\w-]{1,60}$/.test(word) ? word : quote(word);
}

/** Returns a message as one line of bounded length, because it may contain long paths. */
export function messageLine(message: string): string {
  const isLong = message.length > 3_000;
  return printable(isLong ? `${message.slice(0, 2_000)}…${message.slice(-900)}` : message);
}

/** The command by which the operator calls this program, for messages. */
export const program =
  basename(process.argv[1] ?? '') === 'petstore' ? 'petstore' : 'node dist/server.js';

/** Prints one line on standard error, because standard output has only the result of a command. */
export function printNotice(line: string): void {
  process.stderr.write(`${printable(line)}\n`);
}

/**
 * Prints the result of a command on standard output.
 *
 * @param loss The loss if the result cannot be read. Without it, a closed pipe, as after `head`, is
 * not an error.
 * @throws Refusal if the result cannot be written
 */
export async function print(lines: readonly string[], loss?: string): Promise<void> {
  await write(lines.map((line) => `${printable(line)}\n`).join(''), loss);
}

/** Prints a line with an ANSI attribute, such as 1 for bold or 31 for red, if it is wanted. */
export async function printInColour(line: string, attribute: number): Promise<void> {
  const text = printable(line);
  await write(hasColours(process.stdout) ? `\u001b[${attribute}m${text}\u001b[0m\n` : `${text}\n`);
}

/** True if the stream gets colours: on a terminal, or elsewhere with FORCE_COLOR. */
function hasColours({ isTTY }: NodeJS.WriteStream): boolean {
  const { FORCE_COLOR: force = '', NO_COLOR: no = '' } = process.env;
  if (isDumb() || no !== '') return false;
  return force === '' ? isTTY : !['0', 'false'].includes(force);
}

/** True if the terminal has no escape sequences. */
const isDumb = () => process.env['TERM'] === 'dumb';

async function write(text: string, loss?: string): Promise<void> {
  const error = await new Promise<unknown>((resolve) => process.stdout.write(text, resolve));
  if (!error || (codeOf(error) === 'EPIPE' && loss === undefined)) return;

  const reason = codeOf(error) === 'EPIPE' ? 'its reader is gone' : plainReason(error);
  refuse(`standard output cannot be written (${reason}): ${loss ?? 'the result is lost'}`);
}

/** Returns a count with its noun: `1 pet`, `2 pets`. */
export function countOf(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}

/** The columns of a line of progress beside its bar, and the fewest columns of a bar. */
const besideBar = 34;
const minBar = 5;
const maxBar = 30;

/** True while the terminal shows a line of progress. */
let isProgressShown = false;

/**
 * Shows progress in one line of standard error, if that is a terminal with escape sequences. The
 * line is cut at the width of the terminal, because a line that wraps could not be replaced. An
 * empty text clears the line, and so does a signal that ends the process.
 */
export function showProgress(text: string): void {
  if (!process.stderr.isTTY || isDumb()) return;
  const line = [...printable(text)].slice(0, columns() - 1).join('');
  if (text !== '' && !isProgressShown) listenToEnd('on');
  process.stderr.write(`\r${line}\u001b[K`);
  if (text === '' && isProgressShown) listenToEnd('off');
  isProgressShown = text !== '';
}

/** Adds or removes the listener to the signals that end the process. */
function listenToEnd(change: 'on' | 'off'): void {
  for (const signal of ['SIGINT', 'SIGTERM']) process[change](signal, clearAndEnd);
}

/** Clears the progress. The signal then ends the process, unless a command listens to it. */
function clearAndEnd(signal: NodeJS.Signals): void {
  showProgress('');
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
}

/**
 * Shows progress with a bar, which has at most 30 columns and is left out on a narrow terminal.
 *
 * @param done The part that is done, from 0 to 1.
 */
export function showBar(what: string, done: number, counted: string): void {
  const width = Math.min(maxBar, columns() - besideBar);
  const bar = width < minBar ? '' : `[${'#'.repeat(done * width).padEnd(width, '-')}] `;
  showProgress(`${what} ${bar}${Math.floor(done * 100)}% ${counted}`);
}

/** Returns the columns of the terminal of standard error. A terminal may not know its width. */
function columns(): number {
  const { COLUMNS: text = '' } = process.env;
  return (/^[1-9][0-9]{0,3}$/.test(text) ? Number(text) : process.stderr.columns) || 80;
}

/** The format of log lines: `text` for people, `json` for programs. */
export type LogFormat = 'text' | 'json';

/**
 * Returns a log that writes to a stream. While 4 MiB are unread, it drops lines and counts them. It
 * throws a TypeError if a field cannot be written as JSON.
 *
 * @param format The default is `text` on a terminal and `json` elsewhere.
 * @param clock Returns milliseconds since the epoch, for the time of each line.
 */
export function logTo(
  stream: NodeJS.WriteStream,
  format: LogFormat = stream.isTTY ? 'text' : 'json',
  clock = Date.now,
): Log {
  const lineOf = format === 'json' ? jsonLine : textLine;
  let dropped = 0;

  const write: Log = (level, msg, fields = {}) => {
    if (dropped > 0 || stream.writableLength > 2 ** 22) dropped++;
    else stream.write(`${printable(lineOf(new Date(clock()), level, msg, fields))}\n`);
  };

  stream.on('drain', () => {
    if (dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    write('warn', 'log lines were dropped because they were not read', { lines });
  });

  return write;
}

/** A replacer for `JSON.stringify`, which would throw for a bigint. */
const plain = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);

function jsonLine(time: Date, level: string, msg: string, fields: object): string {
  // The members come first in the line, and win over fields of their names.
  return JSON.stringify(Object.assign({ level, msg }, fields, { level, msg, time }), plain);
}

function textLine(time: Date, level: string, msg: string, fields: object): string {
  const hour = time.toTimeString().slice(0, 8);
  const words = level === 'info' ? [hour, msg] : [hour, `${level}:`, msg];

  for (const [name, value] of Object.entries(fields))
    if (value !== undefined)
      words.push(`${name}=${JSON.stringify(value, plain).replace(/^"([^\s"\\]+)"$/, '$1')}`);

  return words.join(' ');
}
