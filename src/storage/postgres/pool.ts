/** Owns what we use of `pg`, and finding it: an optional package, imported only here and only when asked for. */
import type { Client as DriverClient } from 'pg';
import { messageOf, PetstoreError } from '../../errors.js';
import { driverSocket, endWhereReaderThrows } from './socket.js';

/** What is asked of a pool; one of `pg` has it. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** With each connection that is made, before anybody has it. */
  on(event: 'connect', listener: (client: Pick<PostgresClient, 'on'>) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'connect', listener: (client: Pick<PostgresClient, 'on'>) => void): unknown;
}

/** What is asked of one connection of a pool. */
export interface PostgresClient {
  query(query: PostgresQuery): Promise<{ readonly rows: readonly unknown[] }>;
  /** Gives it back; with true it is closed instead. */
  release(destroy?: boolean): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** A statement with its values. */
export interface PostgresQuery {
  readonly text: string;
  /** Under which it is prepared, to be sent whole only once a connection; absent for one that is not. */
  readonly name?: string;
  readonly values: unknown[];
  /** Who reads the columns: nobody, so that neither an int64 nor a JSON text is ever taken for something else. */
  readonly types: { getTypeParser(): (text: string) => string };
}

/** How long things may take, in milliseconds, from 1. */
export interface TimeLimits {
  /** For a connection, be it made or waited for, and then for the first answer on it. */
  readonly connectMs: number;
  /** For a statement, kept by the server, which may have a shorter limit of its own; shorter than `queryMs`, so that it answers. */
  readonly statementMs: number;
  /** For the answer to a statement: then the connection is given up. */
  readonly queryMs: number;
}

/** Those of a server at work: with the pauses between them, they end within a group commit's 8 s. */
export const servingLimits: TimeLimits = { connectMs: 2_000, statementMs: 3_000, queryMs: 3_500 };

/** Nobody waits for a batch that is copied, or for a page of it, but the copy. */
export const copyingLimits: TimeLimits = { connectMs: servingLimits.connectMs, statementMs: 20_000, queryMs: 21_000 };

/**
 * A pool of its own for the database of a URL; nothing is connected yet.
 * @throws TypeError for what is no URL of PostgreSQL, without repeating it; PetstoreError `storage_unusable` without `pg`.
 */
export async function poolFor(url: string, maxConnections: number, { connectMs }: TimeLimits): Promise<PostgresPool> {
  if (!isPostgresUrl(url)) throw new TypeError('the database must be a URL such as postgres://user:password@host:5432/name, or a pool of pg');
  const driver = await loadDriver();
  return new driver.Pool({
    Client: endingClient(driver.Client),
    connectionString: url,
    application_name: 'petstore',
    max: maxConnections,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    stream: driverSocket,
  });
}

/** Whether a text is a URL of the scheme `postgres` or `postgresql`. */
export function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text) && URL.canParse(text);
}

type Connected = ((error: Error) => void) | ((error: null, client: DriverClient) => void);

/** A client that ends what it could not connect: the pool forgets it, and something that is no PostgreSQL may leave it open. */
function endingClient(Client: typeof DriverClient): new () => DriverClient {
  return class extends Client {
    override connect(): Promise<DriverClient>;
    override connect(connected: Connected): void;
    override connect(connected?: Connected): Promise<DriverClient> | undefined {
      // With TLS its messages come on another stream, made around the socket.
      this.connection.once('sslconnect', () => endWhereReaderThrows(this.connection.stream));
      if (connected === undefined) return super.connect();
      super.connect((error: Error | null) => {
        if (error) this.end(ignore);
        Reflect.apply(connected, undefined, [error, this]);
      });
      return undefined;
    }
  };
}

function ignore(): void {}

async function loadDriver(): Promise<Pick<typeof import('pg'), 'Client' | 'Pool'>> {
  try {
    return (await import('pg')).default;
  } catch (cause) {
    throw new PetstoreError('storage_unusable', `PostgreSQL needs the package pg: npm install pg (${messageOf(cause).split('\n', 1)[0]})`, { cause });
  }
}
