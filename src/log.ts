/** The log, and calls of foreign code whose errors cannot end the process. */
import { reasonOf } from './errors.js';

/** The severity of a line: `error` needs action, `warn` needs attention. */
export type LogLevel = 'info' | 'warn' | 'error';

/**
 * Writes a line for the operator. Fields never hold an API key. An error that it throws is ignored.
 */
export type Log = (
  level: LogLevel,
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/**
 * Returns a log that never throws. If `log` throws because of the fields, the message is logged
 * without them.
 */
export function safeLog(log: Log): Log {
  return (level, message, fields) =>
    void callSafely(
      () => log(level, message, fields),
      (error) =>
        callSafely(() =>
          log(level, message, { unwritten: `the fields could not be logged: ${reasonOf(error)}` }),
        ),
    );
}

/** Calls foreign code and passes any error, thrown or rejected, to `failed`. */
export async function callSafely(
  call: () => unknown,
  failed?: (error: unknown) => void,
): Promise<void> {
  try {
    await call();
  } catch (error) {
    failed?.(error);
  }
}
