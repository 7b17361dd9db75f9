/** Owns the shape of what the petstore has to say to its operator; knows no place where it is written. */

/** `error` needs somebody, `warn` wants to be looked at, `info` is for the record. */
export type LogLevel = 'info' | 'warn' | 'error';

/** Takes one thing to say; must not throw. Fields hold no key and nothing that `JSON.stringify` refuses. */
export type Log = (level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>) => void;
