/** What the process says: the log, a command's results, refusals and progress; each thing is one line. */
import { basename } from 'node:path';
import type { Writable } from 'node:stream';
import { codeOf, reasonOf, type Log } from '../index.js';

/** What the operator gave cannot be used: exit 2. The message is one sentence that names it and the mend. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

// The controls of ASCII and Latin-1, the line ends of Unicode, and what turns the writing direction round.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** A text in which whatever would move a terminal's cursor or start another line stands as its JSON escape. */
export function printable(text: string): string {
  return text.replace(unprintable, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** How this program was called, for the commands that its help and its refusals name. */
export const program = basename(process.argv[1] ?? '') === 'petstore' ? 'petstore' : 'node dist/server.js';

/** Says something on standard error. */
export function say(line: string): void {
  process.stderr.write(`${printable(line)}\n`);
}

/**
 * Writes a command's result to standard output, whose reader may have had enough of it, as `head` has.
 * @param loss What nobody hears of otherwise: then a reader that is gone is a failure, too.
 * @throws Refusal where it cannot be written.
 */
export async function print(lines: readonly string[], loss?: string): Promise<void> {
  const text = lines.map((line) => `${printable(line)}\n`).join('');
  const error = await new Promise<unknown>((resolve) => process.stdout.write(text, resolve));
  if (!error || (codeOf(error) === 'EPIPE' && loss === undefined)) return;
  const lost = loss ?? 'the result was shown to nobody';
  throw new Refusal(`standard output cannot be written (${reasonOf(error)}): ${lost}`);
}

const barWidth = 30;
const redrawMs = 100;

/** How far long work is: one line of standard error that is drawn over itself on a terminal, and nothing elsewhere. */
export class Progress {
  #drawnAt = -Infinity;

  /** Draws a bar; `done` is from 0 to 1. */
  show(what: string, done: number, count: number): void {
    const bar = '#'.repeat(done * barWidth).padEnd(barWidth, '-');
    this.count(`${what} [${bar}] ${String(Math.floor(done * 100)).padStart(3)}%`, count);
  }

  /** Draws a running count, for work whose end nobody knows. */
  count(what: string, count: number, things = 'animals'): void {
    if (!process.stderr.isTTY || performance.now() - this.#drawnAt < redrawMs) return;
    this.#drawnAt = performance.now();
    process.stderr.write(`\r${what} ${count} ${things}`);
  }

  /** Leaves an empty line for what is said next. */
  clear(): void {
    if (this.#drawnAt > -Infinity) process.stderr.write('\r\u001b[K');
  }
}

const maxBufferedBytes = 2 ** 22;

/** How a line of the log is written: for people, or for programs. */
export type LogFormat = 'text' | 'json';

/** While 4 MiB wait for the stream's reader, lines are dropped; once it has taken all, their number is logged. */
export function logTo(stream: Writable, format: LogFormat): Log {
  let dropped = 0;
  const lineOf = format === 'json' ? jsonLine : textLine;
  const write: Log = (level, msg, fields) => {
    if (dropped > 0 || stream.writableLength > maxBufferedBytes) dropped++;
    else stream.write(`${printable(lineOf(level, msg, membersOf(fields)))}\n`);
  };
  stream.on('drain', () => {
    if (dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    write('warn', 'log lines were dropped: nobody read them', { lines });
  });
  return write;
}

/** The name of a field and its value in JSON. */
type Member = readonly [name: string, json: string];

function jsonLine(level: string, msg: string, members: readonly Member[]): string {
  const time = member('time', () => new Date().toISOString());
  const all = [...member('level', () => level), ...member('msg', () => msg), ...members, ...time];
  return `{${all.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
}

function textLine(level: string, msg: string, members: readonly Member[]): string {
  const words = [new Date().toTimeString().slice(0, 8), ...(level === 'info' ? [] : [`${level}:`]), msg];
  // A word needs no quotes.
  for (const [name, json] of members) words.push(`${name}=${/^"[^\s"\\]+"$/.test(json) ? json.slice(1, -1) : json}`);
  return words.join(' ');
}

function membersOf(fields: Readonly<Record<string, unknown>> = {}): readonly Member[] {
  try {
    const names = Object.keys(fields).filter((name) => !['level', 'msg', 'time'].includes(name));
    return names.flatMap((name) => member(name, () => fields[name]));
  } catch (error) {
    return member('fields', () => unwritable(error));
  }
}

/** Each is written alone, so that one that is cyclic, or whose getter throws, costs no other; none for undefined. */
function member(name: string, read: () => unknown): readonly Member[] {
  let json: string | undefined;
  try {
    // Ids are bigints, at which JSON.stringify throws.
    json = JSON.stringify(read(), (_name, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  } catch (error) {
    json = JSON.stringify(unwritable(error));
  }
  return json === undefined ? [] : [[name, json]];
}

function unwritable(error: unknown): string {
  return `[cannot be written: ${reasonOf(error)}]`;
}
