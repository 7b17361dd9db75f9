/** The log that an operator reads, and calls of what is not ours that cannot end the process. */
import { reasonOf } from './errors.js';

/** `error` needs somebody, `warn` wants to be looked at, `info` is for the record. */
export type LogLevel = 'info' | 'warn' | 'error';

/** Takes what the operator is to know. Fields hold no key; a log that throws does no harm. */
export type Log = (
  level: LogLevel,
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/**
 * A log that never throws, made of one that may: where fields cannot be written, the message is,
 * and says so.
 */
export function harmlessLog(log: Log): Log {
  return (level, message, fields) =>
    void guarded(
      () => log(level, message, fields),
      (error) =>
        guarded(() =>
          log(level, message, { unwritten: `the fields could not be logged: ${reasonOf(error)}` }),
        ),
    );
}

/**
 * Calls at once what is not ours. What it throws, or rejects with, goes to `failed` alone, if that
 * is given.
 */
export async function guarded(
  call: () => unknown,
  failed?: (error: unknown) => void,
): Promise<void> {
  try {
    await call();
  } catch (error) {
    failed?.(error);
  }
}
