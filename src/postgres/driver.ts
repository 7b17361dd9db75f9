/** What this room uses of `pg`, an optional package: it is imported once a database is opened. */
import { statSync } from 'node:fs';
import type { Client as DriverClient } from 'pg';
import { reasonOf, PetstoreError } from '../errors.js';
import type { ByteString } from '../json.js';

/** What calls back with a value after an event. */
interface Emitter<Event, Value> {
  on(event: Event, listener: (value: Value) => void): unknown;
  removeListener(event: Event, listener: (value: Value) => void): unknown;
}

type PoolEvents = Emitter<'error', Error> & Emitter<'connect', PostgresClient>;

/** What a pool of connections must have; one of `pg` has it. */
export interface PostgresPool extends PoolEvents {
  /** Takes a connection, and waits for one where all are in use. */
  connect(): Promise<PostgresClient>;

  /** Closes its connections, once all are given back. */
  end(): Promise<void>;

  /** How it was made. Where it has no `connectionTimeoutMillis`, the log has a warning. */
  readonly options?: { readonly connectionTimeoutMillis?: number | null | undefined };
}

/** What the database says beside its answers. */
export type Notice = Readonly<
  Partial<Record<'severity' | 'message' | 'routine', string | undefined>>
>;

/** A row by the names of its columns, which are text or bytea, as their bytes. */
export type Row = Readonly<Record<string, ByteString | null>>;

type ClientEvents = Emitter<'error' | 'end', unknown> & Emitter<'notice', Notice>;

/** A statement. `binary` is for what comes back, of which `types` makes byte strings. */
interface Query {
  text: string;
  name?: string | undefined;
  values: unknown[];
  binary: boolean;
  types: { getTypeParser(): (bytes: Buffer | string) => ByteString };
}

/** A connection that was taken from a pool. */
export interface PostgresClient extends ClientEvents {
  query(query: Query): Promise<{ readonly rows: readonly Row[] }>;

  /** Gives it back to the pool, or closes it. */
  release(destroy?: boolean): void;
}

/** How long a connection is waited for, and then its first answer. */
export const connectMs = 2_000;

/** The values of `sslmode` that `pg` knows. */
const sslModes = /^(disable|no-verify|verify-full|verify-ca|require|prefer)$/;

/** The parameters of a URL that name files for TLS. `pg` reads these whenever it connects. */
const tlsFiles = ['sslrootcert', 'sslcert', 'sslkey'];

/**
 * Returns why a file for TLS that a URL names cannot be read; undefined if all can. A pipe or a
 * device would block the process.
 */
function tlsFileProblem({ searchParams }: URL): string | undefined {
  for (const name of tlsFiles)
    for (const path of searchParams.getAll(name).filter((each) => each !== ''))
      try {
        if (!statSync(path).isFile()) return `${name}=${path} is not a regular file`;
      } catch (error) {
        return `${name}=${path} cannot be read (${reasonOf(error)})`;
      }
  return undefined;
}

/**
 * Returns the URL, without its files for TLS if any of them cannot be read now. A connection
 * without them fails, or is refused by the database, and the next one tries again. A client of `pg`
 * that cannot read a file would throw instead, outside of every promise.
 */
function readableUrl(text: string): string {
  const url = new URL(text);
  if (tlsFileProblem(url) === undefined) return text;

  for (const name of tlsFiles) url.searchParams.delete(name);
  // These files turn TLS on, even without a mode.
  if (!url.searchParams.has('sslmode')) url.searchParams.set('sslmode', 'verify-full');
  return url.href;
}

/** What is wanted in the place of a text; undefined where it is the URL of a database. */
export function wantedUrl(text: string): string | undefined {
  const url = /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) && new URL(text);
  // What stands before an unescaped / ? or # of a password is taken for the host, which is logged;
  // the @ before the true host is left.
  if (!url || `${url.pathname}${url.search}${url.hash}`.includes('@')) {
    const escapes =
      'in user and password write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %';
    return `a URL such as postgres://user:password@host:5432/name; ${escapes}`;
  }

  const areKnown = url.searchParams.getAll('sslmode').every((mode) => sslModes.test(mode));
  return areKnown ? undefined : 'a URL whose sslmode is disable, verify-full or no-verify';
}

/**
 * A pool of our own to the database of a URL.
 * @throws TypeError for what is no URL, which it does not repeat: it may hold a password.
 * @throws PetstoreError `storage_unusable` without `pg`, or if a file for TLS cannot be read.
 */
export async function poolFor(text: string, maxConnections: number): Promise<PostgresPool> {
  const wanted = wantedUrl(text);
  if (wanted !== undefined) throw new TypeError(`the database must be a pool of pg, or ${wanted}`);

  const url = new URL(text);
  const problem = tlsFileProblem(url);
  if (problem !== undefined)
    throw new PetstoreError('storage_unusable', `the database's URL: ${problem}; name a PEM file`);

  // `pg` takes these modes for verify-full too, but with ten lines of warning.
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
 * A client that ends its connection where connecting fails, or where the parser of `pg` throws: for
 * bytes that no PostgreSQL sends it would throw out of a socket's event, and end the process.
 */
function guardedClient(Client: typeof DriverClient): typeof DriverClient {
  return class extends Client {
    constructor(config?: ConstructorParameters<typeof DriverClient>[0]) {
      const url = typeof config === 'object' ? config.connectionString : undefined;
      super(
        typeof config === 'object' && url !== undefined
          ? { ...config, connectionString: readableUrl(url) }
          : config,
      );
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
      // With TLS the messages come on another stream.
      connection.once('sslconnect', guard);

      // The pool forgets a client that does not connect, and the other end may leave it open.
      const end = () => void connection.stream.destroy();
      connection.on('error', end).on('errorMessage', end);
      connection.once('readyForQuery', () => connection.off('errorMessage', end));
    }
  };
}
