/** What this room uses of `pg`: an optional package, imported only when asked for. */
import type { Client as DriverClient } from 'pg';
import { reasonOf, PetstoreError } from '../errors.js';
import type { ByteString } from '../json.js';

interface Emitter<Event, Value> {
  on(event: Event, listener: (value: Value) => void): unknown;
  removeListener(event: Event, listener: (value: Value) => void): unknown;
}

type PoolEvents = Emitter<'error', Error> & Emitter<'connect', PostgresClient>;

/** What is asked of a pool; one of `pg` has it. */
export interface PostgresPool extends PoolEvents {
  /** A connection, waited for where all are in use. */
  connect(): Promise<PostgresClient>;
  /** Closes its connections, once all are given back. */
  end(): Promise<void>;
  /** Without a `connectionTimeoutMillis` the log has a warning. */
  readonly options?: { readonly connectionTimeoutMillis?: number | null | undefined };
}

export type Notice = Readonly<
  Partial<Record<'severity' | 'message' | 'routine', string | undefined>>
>;

/** Every column as its bytes: statements answer only text and bytea. */
export type Row = Readonly<Record<string, ByteString | null>>;

type ClientEvents = Emitter<'error' | 'end', unknown> & Emitter<'notice', Notice>;

/** `binary` is for what comes back, of which `types` makes byte strings. */
interface Query {
  text: string;
  name?: string;
  values: unknown[];
  binary: boolean;
  types: { getTypeParser(): (bytes: Buffer | string) => ByteString };
}

export interface PostgresClient extends ClientEvents {
  query(query: Query): Promise<{ readonly rows: readonly Row[] }>;
  /** Gives it back; with true it is closed instead. */
  release(destroy?: boolean): void;
}

/** For a connection, and then for its first answer. */
export const connectMs = 2_000;
const sslModes = ['disable', 'no-verify', 'verify-full', 'verify-ca', 'require', 'prefer'];

/** What is wanted in the place of a text that is no URL of a database. */
export function wantedUrl(text: string): string | undefined {
  const url = /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) && new URL(text);
  // What stands before an unescaped / ? or # of a password is taken for the host.
  if (!url || (url.username === '' && `${url.pathname}${url.search}${url.hash}`.includes('@'))) {
    const escapes =
      'in user and password write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %';
    return `a URL such as postgres://user:password@host:5432/name; ${escapes}`;
  }
  const areKnown = url.searchParams.getAll('sslmode').every((mode) => sslModes.includes(mode));
  return areKnown ? undefined : 'a URL whose sslmode is disable, verify-full or no-verify';
}

/**
 * @throws TypeError for what is no URL, without repeating it; PetstoreError `storage_unusable`
 * without `pg`
 */
export async function poolFor(text: string, maxConnections: number): Promise<PostgresPool> {
  const wanted = wantedUrl(text);
  if (wanted !== undefined) throw new TypeError(`the database must be a pool of pg, or ${wanted}`);
  const url = new URL(text);
  // `pg` takes them for that, with ten lines of warning.
  if (!url.searchParams.has('uselibpqcompat'))
    url.search = url.search.replace(
      /\bsslmode=(prefer|require|verify-ca)\b/g,
      'sslmode=verify-full',
    );
  const { default: driver } = await import('pg').catch((cause: unknown) => {
    const problem = `PostgreSQL needs the package pg: npm install pg@8 (${reasonOf(cause)})`;
    throw new PetstoreError('storage_unusable', problem, { cause });
  });
  return new driver.Pool({
    Client: guardedClient(driver.Client),
    connectionString: url.href,
    application_name: 'petstore',
    max: maxConnections,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
  });
}

/**
 * Ends its connection where connecting fails, or its parser throws: for bytes that no PostgreSQL
 * sends, uncaught.
 */
function guardedClient(Client: typeof DriverClient): typeof DriverClient {
  return class extends Client {
    constructor(config?: ConstructorParameters<typeof DriverClient>[0]) {
      super(config);
      const { connection } = this;
      const guard = () => {
        const { stream } = connection;
        const { emit } = stream;
        stream.emit = (...event: Parameters<typeof emit>) => {
          try {
            return Reflect.apply(emit, stream, event);
          } catch (error) {
            stream.destroy(new Error(reasonOf(error)));
            return true;
          }
        };
      };
      guard();
      // With TLS its messages come on another stream.
      connection.once('sslconnect', guard);
      // The pool forgets a client that does not connect, and the other end may leave it open.
      const end = () => void connection.stream.destroy();
      connection.on('error', end).on('errorMessage', end);
      connection.once('readyForQuery', () => connection.off('errorMessage', end));
    }
  };
}
