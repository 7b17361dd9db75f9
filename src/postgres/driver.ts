/** The used part of the package `pg`, which is optional and therefore imported at its first use. */
import { fileURLToPath } from 'node:url';
import type { Client as DriverClient } from 'pg';
import { reasonOf, PetstoreError } from '../errors.js';
import type { ByteString } from '../json.js';
import { databaseUrlProblem, driverUrl, readableUrl, tlsFileProblem } from './database-url.js';

/** An emitter of events with one value. */
interface Emitter<Event, Value> {
  on(event: Event, listener: (value: Value) => void): unknown;
  removeListener(event: Event, listener: (value: Value) => void): unknown;
}

type PoolEvents = Emitter<'error', Error> & Emitter<'connect', PostgresClient>;

/** A connection pool of `pg`. */
export interface PostgresPool extends PoolEvents {
  /** Takes a connection, or waits for one if all are in use. */
  connect(): Promise<PostgresClient>;

  /** Closes all connections once they are released. */
  end(): Promise<void>;

  /**
   * Its options. Without `connectionTimeoutMillis` a warning is logged. If `max` is less than 3 or
   * absent, one batch is sent at a time.
   */
  readonly options?: {
    readonly connectionTimeoutMillis?: number | null | undefined;
    readonly max?: number | undefined;
  };
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

/**
 * Returns a new pool of connections to the database of a URL.
 * @param connectMs The longest time of connecting, in ms.
 * @throws TypeError if the URL is not valid; the message does not repeat it, because it may hold a
 * password
 * @throws PetstoreError `storage_unusable` if `pg` is missing or a TLS file cannot be read
 */
export async function poolFor(
  text: string,
  maxConnections: number,
  connectMs: number,
): Promise<PostgresPool> {
  const problem = databaseUrlProblem(text);
  if (problem !== undefined)
    throw new TypeError(`the URL of the database is not valid: ${problem}`);

  const url = driverUrl(text);
  const fileProblem = tlsFileProblem(url);
  if (fileProblem !== undefined)
    throw new PetstoreError(
      'storage_unusable',
      `the URL of the database: ${fileProblem}; name a PEM file`,
    );

  const { default: driver } = await import('pg').catch((cause: unknown) => {
    const folder = installFolder();
    const message =
      `PostgreSQL needs the package pg, which ${folder} does not have; ` +
      `run: npm install --prefix ${folder} pg@8 (${reasonOf(cause)})`;
    throw new PetstoreError('storage_unusable', message, { cause });
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

/** Returns the folder in which packages must be installed so that this module finds them. */
function installFolder() {
  const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '');
  const folder = root.replace(/[\\/]node_modules[\\/]petstore$/, '');
  return /^[\w./:\\-]+$/.test(folder) ? folder : `'${folder}'`;
}

/**
 * Returns a client class that closes its connection if connecting fails or if the parser of `pg`
 * throws. Without it, damaged bytes would make the parser throw from a socket's event, which ends
 * the process: the test "reports a server that is not PostgreSQL" shows it.
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
