/** What this room uses of `pg`: an optional package, imported only when asked for. */
import type { Duplex } from 'node:stream';
import type { Client as DriverClient } from 'pg';
import { reasonOf, PetstoreError, type Log } from '../errors.js';

interface Emitter<Event, Values extends readonly unknown[]> {
  on(event: Event, listener: (...values: Values) => void): unknown;
  removeListener(event: Event, listener: (...values: Values) => void): unknown;
}

/** `error` with what ended an idle connection; `connect` with each new one, before anybody has it. */
type PoolEvents = Emitter<'error', [Error]> & Emitter<'connect', [PostgresConnection]>;

/** What is asked of a pool; one of `pg` has it. */
export interface PostgresPool extends PoolEvents {
  /** A connection, waited for where all are in use. */
  connect(): Promise<PostgresClient>;
  /** Closes its connections, once all are given back. */
  end(): Promise<void>;
  /** Without a `connectionTimeoutMillis` the log has a warning. */
  readonly options?: { readonly connectionTimeoutMillis?: number | null | undefined };
}

/** `error` or `end` once it is lost or closed. */
type ConnectionEvents = Emitter<'error' | 'end', []> & Emitter<'notice', [PostgresNotice]>;

/** One connection of a pool. */
export interface PostgresConnection extends ConnectionEvents {
  /** Its bytes, where they can be read: they tell the severity of an error. */
  readonly connection?: { readonly stream: Duplex };
}

/** A warning or a notice, which the database sends beside an answer. */
export interface PostgresNotice {
  /** `WARNING`, `NOTICE` or the like, in the language of the server. */
  readonly severity?: string | undefined;
  /** Its text, in that language too. */
  readonly message?: string | undefined;
  /** The name of the C function in PostgreSQL that sent it. */
  readonly routine?: string | undefined;
}

/** Every column as PostgreSQL's own text of it. */
export type Row = Readonly<Record<string, string | null>>;

/** One connection that is ours until it is given back. */
export interface PostgresClient extends PostgresConnection {
  /** Rejects with the database's error. */
  query(query: PostgresQuery): Promise<{ readonly rows: readonly Row[] }>;
  /** Gives it back; with true it is closed instead. */
  release(destroy?: boolean): void;
}

/** A statement with its values. */
export interface PostgresQuery {
  /** The SQL, with `$1`, `$2` … for the values. */
  readonly text: string;
  /** Where it is prepared, once a connection. */
  readonly name?: string;
  /** Of `$1`, `$2` … */
  readonly values: unknown[];
  /** Leaves columns as they come: an int64, a JSON text. */
  readonly types: { getTypeParser(): (text: string) => string };
}

/** For a connection, and then for its first answer. */
export const connectMs = 2_000;

/** `pg` takes them for verify-full, with ten lines of warning. */
const strictModes = ['prefer', 'require', 'verify-ca'];
const sslModes = ['disable', 'no-verify', 'verify-full', ...strictModes];

/** What is wanted, as a noun, in the place of a text that is no URL of a database. */
export function wantedUrl(text: string): string | undefined {
  const url = /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) && new URL(text);
  // What stands before an unescaped / ? or # of a password is taken for the host.
  if (!url || (url.username === '' && `${url.pathname}${url.search}${url.hash}`.includes('@'))) {
    const escapes = 'in user and password write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %';
    return `a URL such as postgres://user:password@host:5432/name; ${escapes}`;
  }
  const mode = url.searchParams.get('sslmode');
  if (mode === null || url.searchParams.has('uselibpqcompat') || sslModes.includes(mode)) return undefined;
  return 'a URL whose sslmode is disable, verify-full or no-verify';
}

/**
 * A pool for the database of a URL; nothing is connected yet.
 * @throws TypeError for another text, without repeating it; PetstoreError `storage_unusable` without `pg`.
 */
export async function poolFor(text: string, maxConnections: number, log: Log): Promise<PostgresPool> {
  const wanted = wantedUrl(text);
  if (wanted !== undefined) throw new TypeError(`the database must be a pool of pg, or ${wanted}`);
  const url = new URL(text);
  const mode = url.searchParams.get('sslmode') ?? '';
  if (strictModes.includes(mode) && !url.searchParams.has('uselibpqcompat')) {
    log('warn', `sslmode=${mode} is taken for verify-full: write that, or no-verify to trust any certificate`);
    url.searchParams.set('sslmode', 'verify-full');
  }
  const { default: driver } = await import('pg').catch((cause: unknown) => {
    const problem = `PostgreSQL needs the package pg: npm install pg (${reasonOf(cause)})`;
    throw new PetstoreError('storage_unusable', problem, { cause });
  });
  return new driver.Pool({
    Client: endingClient(driver.Client),
    connectionString: url.href,
    application_name: 'petstore',
    max: maxConnections,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
  });
}

/** Its stream ends where it fails to connect, or talks to no PostgreSQL. */
function endingClient(Client: typeof DriverClient): typeof DriverClient {
  return class extends Client {
    constructor(config?: ConstructorParameters<typeof DriverClient>[0]) {
      super(config);
      const { connection } = this;
      endWhereReaderThrows(connection.stream);
      // With TLS its messages come on another stream.
      connection.once('sslconnect', () => endWhereReaderThrows(connection.stream));
      // The pool forgets a client that does not connect, and the other end may leave it open.
      const end = (): void => void connection.stream.destroy();
      connection.on('error', end).on('errorMessage', end);
      connection.once('readyForQuery', () => connection.off('errorMessage', end));
    }
  };
}

/** The driver's parser throws for bytes that no PostgreSQL sends, where nobody can catch it. */
function endWhereReaderThrows(stream: Duplex): void {
  const emit = stream.emit;
  stream.emit = (event: string | symbol, ...values: unknown[]) => {
    try {
      return Reflect.apply(emit, stream, [event, ...values]);
    } catch (error) {
      if (event !== 'data') throw error;
      stream.destroy(error instanceof Error ? error : new Error(String(error)));
      return true;
    }
  };
}

const errorType = 0x45;
const headerBytes = 5;

/** What a connection says besides rows. The severity of an error is its field V, which `pg` drops. */
export class Session {
  readonly since = performance.now();
  isSetUp = false;
  /** Of the last error; undefined where that has no field V, or its bytes cannot be read. */
  severity: string | undefined;
  /** The last that no PL/pgSQL function raised. */
  warning: string | undefined;
  readonly leave: () => void;
  /** The beginning of a message of which the rest is to come. */
  #held: Buffer = Buffer.alloc(0);
  /** How many bytes are still to come of a message that is no error. */
  #toSkip = 0;

  /** @param connection Between two messages. */
  constructor(connection: PostgresConnection, ended: () => void) {
    const stream = connection.connection?.stream;
    // An error that nobody listens for ends the process.
    connection.on('error', ignore);
    connection.on('end', ended);
    connection.on('notice', this.#notice);
    // Before the driver reads the same bytes.
    stream?.prependListener('data', this.#read);
    this.leave = () => {
      connection.removeListener('error', ignore);
      connection.removeListener('end', ended);
      connection.removeListener('notice', this.#notice);
      stream?.removeListener('data', this.#read);
    };
  }

  readonly #notice = ({ severity = '', message = 'a warning', routine }: PostgresNotice): void => {
    const isLess = /^(NOTICE|INFO|LOG|DEBUG\d?)$/.test(severity);
    if (!isLess && routine !== 'exec_stmt_raise') this.warning = message;
  };

  readonly #read = (chunk: Buffer): void => {
    let bytes = chunk.subarray(this.#toSkip);
    this.#toSkip -= chunk.length - bytes.length;
    if (this.#held.length > 0) bytes = Buffer.concat([this.#held, bytes]);
    while (bytes.length >= headerBytes) {
      const length = 1 + bytes.readUInt32BE(1);
      if (bytes[0] === errorType) {
        if (length > bytes.length) break;
        const fields = bytes.toString('latin1', headerBytes, length).split('\0');
        this.severity = fields.find((field) => field.startsWith('V'))?.slice(1);
      }
      this.#toSkip = Math.max(length - bytes.length, 0);
      bytes = bytes.subarray(length);
    }
    // A copy: the chunk it is part of may be much longer.
    this.#held = Buffer.from(bytes);
  };
}

export function ignore(): void {}
