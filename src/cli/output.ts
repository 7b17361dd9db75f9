/**
 * Writes to the terminal, for the other modules of this folder: the log, results of commands,
 * refusals, progress.
 */
import { basename } from 'node:path';
import { codeOf, denialOf, PetstoreError, reasonOf, type Log } from '../index.js';

/** What the operator gave cannot be used: exit 2. The message names it, and says what to do. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** @throws Refusal with this message, always */
export function refuse(message: string): never {
  throw new Refusal(message);
}

/**
 * Does the work and answers what it answers.
 *
 * @throws Refusal of problem, reason and mend, where the work throws anything but a Refusal or an
 * error of a storage; those are thrown on as they are.
 */
export async function orRefuse<Value>(
  problem: string,
  mend: string,
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
      denial === undefined ? `${problem} (${reasonOf(error)}); ${mend}` : `${problem}: ${denial}`,
    );
  }
}

// Control characters, line ends, and the characters that change the direction of writing.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** The same, and all other characters that a reader could not see or tell from a blank. */
const unreadable = /(?! )[\p{Cc}\p{Cf}\p{Z}\ufffd]/gu;

/** Escapes, as JSON does, what would move a terminal's cursor or start another line. */
export function printable(text: string): string {
  return text.replace(unprintable, escapeChar);
}

function escapeChar(char: string): string {
  const digits = (char.codePointAt(0) ?? 0).toString(16);
  return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
}

/**
 * Quotes a value of the operator's in a message: at most 60 characters, those that cannot be seen
 * escaped, and without the user and the password of a URL.
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

/** Returns a message in one line of bounded length: a path may be long, and stand in it twice. */
export function messageLine(message: string): string {
  const isLong = message.length > 3_000;
  return printable(isLong ? `${message.slice(0, 2_000)}…${message.slice(-900)}` : message);
}

/** How the operator calls this program, for messages that name a command of it. */
export const program =
  basename(process.argv[1] ?? '') === 'petstore' ? 'petstore' : 'node dist/server.js';

/** Prints one line on standard error, beside the result of a command. */
export function printNotice(line: string): void {
  process.stderr.write(`${printable(line)}\n`);
}

/**
 * Prints the result of a command on standard output.
 *
 * @param loss What the operator loses where nobody can read the result. Without it, a reader that
 * is gone, such as `head`, is no failure.
 * @throws Refusal where the result cannot be written
 */
export async function print(lines: readonly string[], loss?: string): Promise<void> {
  await write(lines.map((line) => `${printable(line)}\n`).join(''), loss);
}

/** Prints one line of a result in a colour of ANSI, such as 31, on a terminal that shows any. */
export async function printInColour(line: string, colour: number): Promise<void> {
  // With FORCE_COLOR, Node says yes for a dumb terminal too.
  const isDumb = process.env['TERM'] === 'dumb';
  const hasColours = process.stdout.isTTY && !isDumb && process.stdout.hasColors();
  await write(
    hasColours ? `\u001b[${colour}m${printable(line)}\u001b[0m\n` : `${printable(line)}\n`,
  );
}

async function write(text: string, loss?: string): Promise<void> {
  const error = await new Promise<unknown>((resolve) => process.stdout.write(text, resolve));
  if (!error || (codeOf(error) === 'EPIPE' && loss === undefined)) return;

  const lost = loss ?? 'the result was shown to nobody';
  refuse(`standard output cannot be written (${reasonOf(error)}): ${lost}`);
}

/** A count in words: `1 animal`, `2 animals`. */
export function countOf(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}

/**
 * Shows the progress of long work, in one line on a terminal at standard error. Elsewhere, and on a
 * terminal that knows no escape sequences, it shows nothing. An empty text clears the line.
 */
export function showProgress(text: string): void {
  const isDumb = process.env['TERM'] === 'dumb';
  if (process.stderr.isTTY && !isDumb) process.stderr.write(`\r${text}\u001b[K`);
}

/** How a line of the log is written: for a person, or for a program. */
export type LogFormat = 'text' | 'json';

/**
 * A log that writes to a stream. While 4 MiB wait for a reader it drops lines and counts them.
 *
 * The log throws a TypeError for fields that JSON cannot write.
 *
 * @param clock Milliseconds since the epoch, for the time of each line.
 * @defaultValue `format` is `text` on a terminal, `json` elsewhere.
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
    write('warn', 'log lines were dropped: nobody read them', { lines });
  });

  return write;
}

/** A replacer for `JSON.stringify`, which throws for a bigint. */
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
