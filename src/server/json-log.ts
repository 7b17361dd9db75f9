/** Owns the log's form: one JSON object a line. Knows neither what is said nor where the stream leads. */
import type { Log } from '../index.js';
import { printable } from './printable.js';

/** A log that writes JSON lines: level, msg, the fields, and last the time. */
export function jsonLog(stream: { write(text: string): unknown }): Log {
  return (level, msg, fields) => {
    const line = Object.assign({ level, msg }, fields, { level, msg, time: new Date().toISOString() });
    stream.write(`${printable(JSON.stringify(line, exactly))}\n`);
  };
}

/** Ids are bigints, which JSON.stringify throws at; a plugin's slip here must not end the server. */
function exactly(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
