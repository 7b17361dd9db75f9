/** Asks a database over connections that may be dead or outdated, and tells what became of each statement. */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf, reasonOf, PetstoreError, type Log } from '../errors.js';
import {
  connectMs,
  ignore,
  poolFor,
  Session,
  type PostgresClient,
  type PostgresConnection,
  type PostgresPool,
  type PostgresQuery,
  type Row,
} from './driver.js';

const messages = new Map([
  ['22003', 'There are no ids left.'],
  ['25006', 'The database takes no writes.'],
  ['53100', 'The database is full.'],
]);

/** A statement that is not known to have been carried out; `cause` is what the driver threw. */
export class DatabaseFailure extends PetstoreError {
  /** Whether it may have been, or may still be; else it changed nothing, and never will. */
  readonly isUnknown: boolean;

  constructor(cause: unknown, isUnknown: boolean) {
    super('unavailable', messages.get(stateOf(cause)) ?? 'The database cannot be used now.', { cause });
    this.isUnknown = isUnknown;
  }
}

class TimeoutError extends Error {
  readonly code = 'ETIMEDOUT';
}

export function causeOf(thrown: unknown): unknown {
  return thrown instanceof PetstoreError ? (thrown.cause ?? thrown) : thrown;
}

/** The SQLSTATE (appendix A of PostgreSQL's manual) or the name of a system error, or ''. */
export function stateOf(thrown: unknown): string {
  return codeOf(causeOf(thrown)) ?? '';
}

/** Does something until it works; short pauses double, up to 250 ms. @throws what may not pass, or has not in time */
export async function again<Value>(
  work: () => Promise<Value>,
  mayPass: (error: unknown) => boolean,
  patienceMs = Number.POSITIVE_INFINITY,
): Promise<Value> {
  const giveUpAt = performance.now() + patienceMs;
  for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, 250)) {
    try {
      return await work();
    } catch (error) {
      if (!mayPass(error) || performance.now() > giveUpAt) throw error;
    }
    await wait(pauseMs);
  }
}

/**
 * SQLSTATEs that leave it open whether a statement was carried out, even where the severity is ERROR: a lost connection
 * (08), an unknown outcome (40003), a shutdown (57P), a failure of the system (58) or of PostgreSQL itself (XX), none.
 */
const doubtfulStates = /^(08|40003|57P|58|XX|$)/;
/** A new session may do better, as after a failover or a change of search_path, rights, limits or types. */
const statesOfSessions = ['25006', '42P01', '3F000', '42501', '57014', '55P03', '0A000'];
/** A pooler lacks a prepared statement, or has it already. */
const statesOfPoolers = ['26000', '42P05'];

const asText: PostgresQuery['types'] = { getTypeParser: () => (text) => text };

/**
 * What a session begins with: commits last, or a warning comes; who waited for the counter need not try again; no
 * statement outlasts our patience. Set though it be right already, against a reload of the configuration; not in the
 * words of the connection's start, which a PgBouncer refuses.
 */
const settings = `SELECT
  set_config('client_min_messages', 'warning', false),
  set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit', true) IN ('off', 'local') THEN 'on'
    ELSE current_setting('synchronous_commit', true) END, false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('statement_timeout', CASE
    WHEN extract(epoch FROM current_setting('statement_timeout', true)::interval) * 1000 BETWEEN 1 AND $1::int8
    THEN current_setting('statement_timeout', true) ELSE CAST($1::int8 AS text) END, false)`;

/** For a statement: a server's end within a group commit's 8 s. */
export const servingMs = 3_000;
export const copyingMs = 20_000;
/** The database itself is to answer first. */
const graceMs = 500;
const renewMs = 1_000;
/** How many large answers are read at once, and how long one waits for that. */
const maxLarge = 3;
const turnMs = 5_000;
const tellMs = 60_000;

interface Asking {
  /** For few texts. */
  readonly isPrepared?: boolean;
  readonly statementMs?: number | undefined;
  /** Megabytes, perhaps: few are read at once, or they would fill the memory. */
  readonly isLarge?: boolean;
}

interface Answer {
  readonly rows: readonly Row[];
  readonly warning: string | undefined;
}

/** The connections of one storage. */
export type Connections = Awaited<ReturnType<typeof connectionsTo>>;

/** To the database of a URL, or those of somebody's pool. @throws as `poolFor` */
export async function connectionsTo(
  database: string | PostgresPool,
  statementMs: number,
  maxConnections = 1,
  log: Log = ignore,
) {
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, maxConnections, log) : database;
  const sessions = new Map<PostgresConnection, Session>();
  const underWay = new Set<Promise<unknown>>();
  let trustedSince = 0;
  let renewedAt = Number.NEGATIVE_INFINITY;
  /** Not where a pooler forbids it. */
  let mayPrepare = true;
  let freeTurns = maxLarge;
  const waiting: (() => void)[] = [];
  /** Until then a storage opens, and what that fails by is thrown. */
  let hasAnswered = false;
  const failing = new Set<string>();
  const toldAt = new Map<string, number>();
  let isClosed = false;
  // The pool takes an idle connection out that is lost.
  pool.on('error', ignore);
  // At once, for what says that it is connected may say in the same breath that it ends.
  pool.on('connect', sessionOf);

  /**
   * Carries out one statement that writes, as one transaction. Rows prove that it is committed: a warning may say that
   * a synchronous standby was not waited for.
   * @throws DatabaseFailure
   */
  async function ask(text: string, values: unknown[] = [], asking: Asking = {}): Promise<readonly Row[]> {
    const { rows, warning } = await send(text, values, asking);
    if (warning !== undefined) throw new DatabaseFailure(new Error(warning), true);
    return rows;
  }

  /** The same for one that reads: tried once more where its connection was lost, or its session outdated. */
  async function read(text: string, values: unknown[] = [], asking: Asking = {}): Promise<readonly Row[]> {
    const { isLarge } = asking;
    if (isLarge) await within(turnMs, takeTurn(), giveTurn).catch(throwUnsent);
    const since = trustedSince;
    try {
      const { rows } = await send(text, values, asking).catch((error: unknown) => {
        const isRenewed = trustedSince > since;
        if (!isRenewed || causeOf(error) instanceof TimeoutError) throw error;
        return send(text, values, asking);
      });
      hasAnswered = true;
      tell('be read');
      return rows;
    } catch (error) {
      tell('be read', error);
      throw error;
    } finally {
      if (isLarge) giveTurn();
    }
  }

  /** Tells the log when the database stops doing what is asked, or does it again. */
  function tell(what: 'be read' | 'be written to', failure?: unknown) {
    const isFailing = failure !== undefined;
    if (!hasAnswered || failing.has(what) === isFailing) return;
    const line = isFailing ? `the database cannot ${what}` : `the database can ${what} again`;
    const now = performance.now();
    if (now - (toldAt.get(line) ?? Number.NEGATIVE_INFINITY) < tellMs) return;
    toldAt.set(line, now);
    if (isFailing) {
      failing.add(what);
      log('error', line, { error: reasonOf(causeOf(failure)) });
    } else {
      failing.delete(what);
      log('info', line);
    }
  }

  /** What was changed may be right for new sessions. */
  function renew() {
    const now = performance.now();
    if (now - renewedAt >= renewMs) trustedSince = renewedAt = now;
  }

  /** Ends the pool where it is ours, else lets go of it once nothing is under way. */
  async function close() {
    isClosed = true;
    // It keeps its listeners: its last connections end later, and may still be lost.
    if (isOurs) return pool.end();
    // A connection in use that is lost while nobody listens ends the process.
    await Promise.allSettled(underWay);
    pool.removeListener('error', ignore);
    pool.removeListener('connect', sessionOf);
    for (const session of sessions.values()) session.leave();
    sessions.clear();
  }

  async function send(text: string, values: unknown[], asking: Asking): Promise<Answer> {
    if (isClosed) return throwUnsent(new Error('the storage is closed'));
    const answer = carryOut(text, values, asking).finally(() => underWay.delete(answer));
    underWay.add(answer);
    return answer;
  }

  async function carryOut(text: string, values: unknown[], asking: Asking): Promise<Answer> {
    const name = asking.isPrepared && mayPrepare ? nameOf(text) : undefined;
    const { client, session } = await checkOut().catch(throwUnsent);
    session.severity = undefined;
    session.warning = undefined;
    try {
      const query = { text, values, types: asText, ...(name !== undefined && { name }) };
      const { rows } = await within((asking.statementMs ?? statementMs) + graceMs, client.query(query));
      // Of replies that were damaged on their way the driver may make several answers, or none.
      if (!Array.isArray(rows)) throw new Error('the answer has no rows');
      client.release();
      return { rows, warning: session.warning };
    } catch (error) {
      const state = stateOf(error);
      // All else ends the connection, and mostly others with it.
      const isLost = (session.severity ?? severityOf(error)) !== 'ERROR';
      if (isLost) trustedSince = performance.now();
      else if (statesOfSessions.includes(state)) renew();
      client.release(isLost);
      // Only an ERROR undoes a statement, which is a transaction of its own: a FATAL or a PANIC may follow the commit.
      const failure = new DatabaseFailure(error, isLost || doubtfulStates.test(state));
      if (name === undefined || failure.isUnknown || !statesOfPoolers.includes(state)) throw failure;
      mayPrepare = false;
      return send(text, values, asking);
    }
  }

  /** Not known to be dead or outdated. */
  async function checkOut(): Promise<{ readonly client: PostgresClient; readonly session: Session }> {
    const client = await within(connectMs, pool.connect(), (late) => late.release());
    const session = sessionOf(client);
    if (session.since < trustedSince) {
      client.release(true);
      return checkOut();
    }
    if (session.isSetUp) return { client, session };
    const setting = client.query({ text: settings, values: [statementMs], types: asText });
    await within(connectMs, setting).catch((error: unknown) => {
      client.release(true);
      throw error;
    });
    session.isSetUp = true;
    return { client, session };
  }

  function sessionOf(client: PostgresConnection): Session {
    const session = sessions.get(client) ?? new Session(client, () => sessions.delete(client));
    sessions.set(client, session);
    return session;
  }

  async function takeTurn() {
    if (freeTurns > 0) freeTurns--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
  }

  function giveTurn() {
    const next = waiting.shift();
    if (next === undefined) freeTurns++;
    else next();
  }

  return { ask, read, tell, renew, close, isClosed: () => isClosed };
}

/** For a prepared statement of this very text: another version of ours may have prepared another. */
function nameOf(text: string): string {
  return `petstore_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
}

function throwUnsent(error: unknown): never {
  throw new DatabaseFailure(error, false);
}

/** What comes later goes to `late`. */
function within<Value>(ms: number, promise: Promise<Value>, late: (value: Value) => void = ignore): Promise<Value> {
  return new Promise((resolve, reject) => {
    let isOverdue = false;
    const giveUp = () => {
      isOverdue = true;
      reject(new TimeoutError(`no answer within ${ms} ms`));
    };
    // After a busy turn of the event loop the answer may be there, but not read yet.
    const timer = setTimeout(() => setImmediate(giveUp), ms);
    promise.finally(() => clearTimeout(timer)).then((value) => (isOverdue ? late(value) : resolve(value)), reject);
  });
}

/**
 * Field S of an error, which will do where there is no field V (a pooler, CockroachDB, a client whose bytes cannot be
 * read). It is in the language of the server, and no translation of PostgreSQL calls a FATAL or a PANIC `ERROR`.
 */
function severityOf(error: unknown): string | undefined {
  return error instanceof Error && 'severity' in error ? String(error.severity) : undefined;
}
