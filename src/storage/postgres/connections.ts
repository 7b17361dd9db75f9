/** Owns asking a database with time limits over a pool whose connections may be dead at any time. Knows no table. */
import type { Log } from '../../log.js';
import { DatabaseFailure, isOfSession, outcomeOf, reasonOf } from './failure.js';
import type { PostgresClient, PostgresPool, PostgresQuery, TimeLimits } from './pool.js';

/** A row, every column as PostgreSQL's own text of it. */
export type Row = Readonly<Record<string, string | null>>;

/** The columns as they come. */
const asText: PostgresQuery['types'] = { getTypeParser: () => (text) => text };

/**
 * What every connection begins with: an acknowledged commit must outlive a crash of the server even where its settings say
 * otherwise; of those who wait for the counter's row, none should have to try again when they get it; and no statement may
 * last longer than we wait for it, or those that we gave up would heap up in the server. Not in the words of the
 * connection's start, which a PgBouncer refuses.
 */
const greeting = `SELECT
  CASE WHEN current_setting('synchronous_commit', true) = 'off' THEN set_config('synchronous_commit', 'on', false) END,
  CASE WHEN current_setting('default_transaction_isolation', true) <> 'read committed'
    THEN set_config('default_transaction_isolation', 'read committed', false) END,
  CASE WHEN extract(epoch FROM current_setting('statement_timeout', true)::interval) * 1000 NOT BETWEEN 1 AND $1::int8
    THEN set_config('statement_timeout', CAST($1::int8 AS text), false) END`;

/** How a statement is asked where it differs from the others. */
export interface Asking {
  /** Of a statement that is worth preparing; always the same for the same text. */
  readonly name?: string;
  /** How long its answer may take, in milliseconds. */
  readonly queryMs?: number;
}

/** The connections of one storage. */
export class Connections {
  readonly #pool: PostgresPool;
  readonly #limits: TimeLimits;
  readonly #reading: Health;
  readonly #writing: Health;
  /** When each connection was first seen here. */
  readonly #seenAt = new WeakMap<PostgresClient, number>();
  /** Connections from before are not used: since then one of their kind was found to be of no more use. */
  #trustedSince = 0;

  constructor(pool: PostgresPool, limits: TimeLimits, log: Log) {
    this.#pool = pool;
    this.#limits = limits;
    this.#reading = new Health('be read', log);
    this.#writing = new Health('be written to', log);
    // An idle connection that is lost; the pool takes it out, and the next statement opens another.
    pool.on('error', ignore);
    // At once, for what says that it is connected may say in the same breath that it ends.
    pool.on('connect', hearErrors);
  }

  /**
   * Carries out one statement.
   * @throws DatabaseFailure
   */
  async ask(text: string, values: unknown[] = [], { name, queryMs }: Asking = {}): Promise<readonly Row[]> {
    return this.#ask({ text, values, types: asText, ...(name !== undefined && { name }) }, this.#writing, queryMs);
  }

  /** The same for a statement that changes nothing: tried once more where a connection turned out to be lost. */
  async read(text: string, values: unknown[] = []): Promise<readonly Row[]> {
    const query = { text, values, types: asText };
    try {
      return await this.#ask(query, this.#reading);
    } catch (error) {
      if (!(error instanceof DatabaseFailure) || error.outcome === 'no' || error.cause instanceof TimeoutError) throw error;
      return this.#ask(query, this.#reading);
    }
  }

  /** Lets go of the pool, and ends it where it is ours. */
  async close(isOurs: boolean): Promise<void> {
    // To the end of ours, for its last connections may still be lost.
    if (isOurs) return this.#pool.end();
    this.#pool.removeListener('error', ignore);
    this.#pool.removeListener('connect', hearErrors);
  }

  async #ask(query: PostgresQuery, health: Health, queryMs = this.#limits.queryMs): Promise<readonly Row[]> {
    try {
      const client = await this.#checkOut();
      const rows = await this.#askOn(client, query, queryMs);
      health.works();
      return rows;
    } catch (error) {
      const failure = error instanceof DatabaseFailure ? error : new DatabaseFailure('no', error);
      if (failure.outcome !== 'again') health.fails(failure);
      throw failure;
    }
  }

  /** The connections so far are not used again: the database may be another by now. */
  distrust(): void {
    this.#trustedSince = performance.now();
  }

  /** A connection that is not known to be dead. What is thrown here was thrown before the statement was sent. */
  async #checkOut(): Promise<PostgresClient> {
    for (;;) {
      // What comes too late is still to be given back.
      const client = await within(this.#limits.connectMs, this.#pool.connect(), (late) => late.release());
      if (!this.#seenAt.has(client)) {
        await this.#prepare(client);
        return client;
      }
      if ((this.#seenAt.get(client) ?? 0) >= this.#trustedSince) return client;
      client.release(true);
    }
  }

  async #prepare(client: PostgresClient): Promise<void> {
    this.#seenAt.set(client, performance.now());
    // For those of a caller's pool that are older than we.
    hearErrors(client);
    try {
      await within(this.#limits.connectMs, client.query({ text: greeting, values: [this.#limits.statementMs], types: asText }));
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  async #askOn(client: PostgresClient, query: PostgresQuery, queryMs: number): Promise<readonly Row[]> {
    let isDead = false;
    try {
      const { rows } = await within(queryMs, client.query(query));
      return rows.filter(isRow);
    } catch (error) {
      const outcome = outcomeOf(error);
      isDead = outcome === 'unknown' || isOfSession(error);
      if (isDead) this.distrust();
      throw new DatabaseFailure(outcome, error);
    } finally {
      client.release(isDead);
    }
  }
}

/** Whether the database does what is asked of it, told when that changes. */
class Health {
  readonly #what: string;
  readonly #log: Log;
  #failingSince: number | undefined;

  constructor(what: string, log: Log) {
    this.#what = what;
    this.#log = log;
  }

  fails({ cause }: DatabaseFailure): void {
    if (this.#failingSince !== undefined) return;
    this.#failingSince = performance.now();
    this.#log('error', `the database cannot ${this.#what}`, { error: reasonOf(cause) });
  }

  works(): void {
    if (this.#failingSince === undefined) return;
    this.#log('info', `the database can ${this.#what} again`, { milliseconds: Math.round(performance.now() - this.#failingSince) });
    this.#failingSince = undefined;
  }
}

/** The database did not answer in time. */
class TimeoutError extends Error {}

/** What a promise comes to within so many milliseconds; what comes later goes to `late`. */
async function within<Value>(milliseconds: number, promise: Promise<Value>, late: (value: Value) => void = ignore): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  let isSettled = false;
  const overdue = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      // Where the event loop was kept busy for so long, the answer may be there, but not read yet.
      setImmediate(() => {
        if (isSettled) return;
        promise.then(late, ignore);
        reject(new TimeoutError(`no answer within ${milliseconds} ms`));
      });
    }, milliseconds);
  });
  try {
    return await Promise.race([promise, overdue]);
  } finally {
    isSettled = true;
    clearTimeout(timer);
  }
}

function isRow(row: unknown): row is Row {
  return typeof row === 'object' && row !== null;
}

/** For a connection's life: an error that nobody hears ends the process. */
function hearErrors(client: Pick<PostgresClient, 'on'>): void {
  client.on('error', ignore);
}

function ignore(): void {}
