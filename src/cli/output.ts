/** Writes to the terminal, for the other modules of this folder: the log, results of commands, refusals, progress. */
import { basename } from 'node:path';
import type { Writable } from 'node:stream';
import { codeOf, PetstoreError, reasonOf, type Log } from '../index.js';

/** What the operator gave cannot be used: exit 2. The message names it, and says what to do. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** @throws Refusal of problem, reason and mend, where `work` throws anything but a Refusal or a storage's error. */
export async function orRefuse<Value>(problem: string, mend: string, work: () => Value): Promise<Awaited<Value>> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refusal || (error instanceof PetstoreError && error.code.startsWith('storage_'))) throw error;
    throw new Refusal(`${problem} (${reasonOf(error)}); ${mend}`);
  }
}

// Control characters, line ends, and those that change the direction of writing.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes, as JSON does, what would move a terminal's cursor or start another line. */
export function printable(text: string): string {
  return text.replace(unprintable, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

export const program = basename(process.argv[1] ?? '') === 'petstore' ? 'petstore' : 'node dist/server.js';

export function say(line: string): void {
  process.stderr.write(`${printable(line)}\n`);
}

/** Prints a result. A reader such as `head` may be gone, unless `loss` says what was lost by it. @throws Refusal */
export async function print(lines: readonly string[], loss?: string): Promise<void> {
  const text = lines.map((line) => `${printable(line)}\n`).join('');
  const error = await new Promise<unknown>((resolve) => process.stdout.write(text, resolve));
  if (!error || (codeOf(error) === 'EPIPE' && loss === undefined)) return;
  const lost = loss ?? 'the result was shown to nobody';
  throw new Refusal(`standard output cannot be written (${reasonOf(error)}): ${lost}`);
}

const barWidth = 30;
const redrawMs = 100;

/** Shows the progress of long work: one line on a terminal at standard error, and nothing elsewhere. */
export class Progress {
  #drawnAt = -Infinity;

  show(what: string, done: number, count: number): void {
    const bar = '#'.repeat(done * barWidth).padEnd(barWidth, '-');
    this.count(`${what} [${bar}] ${String(Math.floor(done * 100)).padStart(3)}%`, count);
  }

  count(what: string, count: number, things = 'animals'): void {
    if (!process.stderr.isTTY || performance.now() - this.#drawnAt < redrawMs) return;
    this.#drawnAt = performance.now();
    process.stderr.write(`\r${what} ${count} ${things}`);
  }

  clear(): void {
    if (this.#drawnAt > -Infinity) process.stderr.write('\r\u001b[K');
  }
}

const maxBufferedBytes = 2 ** 22;

/** While 4 MiB wait for the stream's reader, lines are dropped; their number is logged once it has taken all. */
export function logTo(stream: Writable, format: 'text' | 'json'): Log {
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

type Member = readonly [name: string, json: string];

function jsonLine(level: string, msg: string, members: readonly Member[]): string {
  const said = [...member('level', () => level), ...member('msg', () => msg), ...members];
  const time = ['time', JSON.stringify(new Date())] as const;
  return `{${[...said, time].map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
}

function textLine(level: string, msg: string, members: readonly Member[]): string {
  const words = [new Date().toTimeString().slice(0, 8), ...(level === 'info' ? [] : [`${level}:`]), msg];
  for (const [name, json] of members) words.push(`${name}=${/^"[^\s"\\]+"$/.test(json) ? json.slice(1, -1) : json}`);
  return words.join(' ');
}

function membersOf(fields: Readonly<Record<string, unknown>> = {}): readonly Member[] {
  try {
    const names = Object.keys(fields).filter((name) => !['level', 'msg', 'time'].includes(name));
    return names.flatMap((name) => member(name, () => fields[name]));
  } catch (error) {
    return [unwritable('fields', error)];
  }
}

/** Read alone: where one is cyclic, or its getter throws, the others are still logged. */
function member(name: string, read: () => unknown): readonly Member[] {
  try {
    const json = JSON.stringify(read(), (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
    return json === undefined ? [] : [[name, json]];
  } catch (error) {
    return [unwritable(name, error)];
  }
}

function unwritable(name: string, error: unknown): Member {
  return [name, JSON.stringify(`[cannot be written: ${reasonOf(error)}]`)];
}
