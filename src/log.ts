/** The log that an operator reads, and calling what is not ours so that it cannot end the process. */
/** `error` needs somebody, `warn` wants to be looked at, `info` is for the record. */
export type LogLevel = 'info' | 'warn' | 'error';

/** Takes what the operator is to know. Fields hold no key; a log that throws does no harm. */
export type Log = (
  level: LogLevel,
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** Calls what is not ours, at once; what it throws, or rejects with, goes to `failed` alone. */
export async function guarded(
  call: () => unknown,
  failed: (error: unknown) => void,
): Promise<void> {
  try {
    await call();
  } catch (error) {
    failed(error);
  }
}
