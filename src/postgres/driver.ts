/** The part of `pg` that is used. The package is optional, so it is imported at the first use. */
import { statSync } from 'node:fs';
import type { Client as DriverClient } from 'pg';
import { reasonOf, PetstoreError } from '../errors.js';
import type { ByteString } from '../json.js';

/** An emitter of events with one value. */
interface Emitter<Event, Value> {
  on(event: Event, listener: (value: Value) => void): unknown;
  removeListener(event: Event, listener: (value: Value) => void): unknown;
}

type PoolEvents = Emitter<'error', Error> & Emitter<'connect', PostgresClient>;

/** A pool of connections, as `pg` has it. */
export interface PostgresPool extends PoolEvents {
  /** Takes a connection, or waits for one if all are in use. */
  connect(): Promise<PostgresClient>;

  /** Closes all connections once they are released. */
  end(): Promise<void>;

  /** Its options. Without `connectionTimeoutMillis` a warning is logged. */
  readonly options?: { readonly connectionTimeoutMillis?: number | null | undefined };
}

/** A notice or a warning of the database. */
export type Notice = Readonly<
  Partial<Record<'severity' | 'message' | 'routine', string | undefined>>
>;

/** A row: the bytes of its columns, which are text or bytea, by their names. */
export type Row = Readonly<Record<string, ByteString | null>>;

type ClientEvents = Emitter<'error' | 'end', unknown> & Emitter<'notice', Notice>;

/** A statement for the driver. Results are binary, and `types` turns them into byte strings. */
interface Query {
  text: string;
  name?: string | undefined;
  values: unknown[];
  binary: boolean;
  types: { getTypeParser(): (bytes: Buffer | string) => ByteString };
}

/** A connection taken from a pool. */
export interface PostgresClient extends ClientEvents {
  query(query: Query): Promise<{ readonly rows: readonly Row[] }>;

  /** Returns the connection to the pool, or closes it if `destroy` is true. */
  release(destroy?: boolean): void;
}

/** The longest time of connecting, and then of the setup of the session, each in ms. */
export const connectMs = 2_000;

/** The values of `sslmode` that `pg` accepts. */
const sslModes = /^(disable|no-verify|verify-full|verify-ca|require|prefer)$/;

/** The parameters of a URL that name TLS files. `pg` reads the files whenever it connects. */
const tlsFiles = ['sslrootcert', 'sslcert', 'sslkey'];

/**
 * Returns why a TLS file of a URL cannot be read; undefined if all can. Only regular files are
 * accepted, because reading a pipe or a device could block the process.
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
 * Returns the URL, without its TLS files if one of them cannot be read now. A connection without
 * them fails, and the next connection tries the files again. With a file that cannot be read, a
 * client of `pg` would throw outside of every promise.
 */
function readableUrl(text: string): string {
  const url = new URL(text);
  if (tlsFileProblem(url) === undefined) return text;

  for (const name of tlsFiles) url.searchParams.delete(name);
  // These files turn TLS on, even without a mode.
  if (!url.searchParams.has('sslmode')) url.searchParams.set('sslmode', 'verify-full');
  return url.href;
}

/** Returns what a text must be instead; undefined if it is a valid URL of a database. */
export function wantedUrl(text: string): string | undefined {
  const url = /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) && new URL(text);
  // An unescaped / ? or # in a password ends the host, so that part of the password is taken for
  // the host, which is logged. The @ before the true host then stands in the path, query or
  // fragment.
  if (!url || `${url.pathname}${url.search}${url.hash}`.includes('@')) {
    const escapes =
      'in user and password write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %';
    return `a URL such as postgres://user:password@host:5432/name; ${escapes}`;
  }

  const areKnown = url.searchParams.getAll('sslmode').every((mode) => sslModes.test(mode));
  return areKnown ? undefined : 'a URL whose sslmode is disable, verify-full or no-verify';
}

/**
 * Returns a new pool of connections to the database of a URL.
 * @throws TypeError if the URL is not valid; the message does not repeat it, because it may hold a
 * password
 * @throws PetstoreError `storage_unusable` if `pg` is missing or a TLS file cannot be read
 */
export async function poolFor(text: string, maxConnections: number): Promise<PostgresPool> {
  const wanted = wantedUrl(text);
  if (wanted !== undefined) throw new TypeError(`the database must be a pool of pg, or ${wanted}`);

  const url = new URL(text);
  const problem = tlsFileProblem(url);
  if (problem !== undefined)
    throw new PetstoreError('storage_unusable', `the database's URL: ${problem}; name a PEM file`);

  // `pg` treats these modes as verify-full, but with ten lines of warning.
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
 * Returns a client class that closes its connection if connecting fails or if the parser of `pg`
 * throws. Without it, damaged bytes would make the parser throw from a socket's event, which ends
 * the process.
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
      // With TLS another stream carries the messages.
      connection.once('sslconnect', guard);

      // The pool forgets a client that fails to connect, and the server may keep its socket open.
      const end = () => void connection.stream.destroy();
      connection.on('error', end).on('errorMessage', end);
      connection.once('readyForQuery', () => connection.off('errorMessage', end));
    }
  };
}
