/**
 * Sends statements to a database over connections that may be dead or outdated, and determines the
 * outcome of each.
 */
import { hash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setImmediate, setTimeout } from 'node:timers';
import { setTimeout as wait } from 'node:timers/promises';
import { closedError } from '../engine/index.js';
import { codeOf, reasonOf, PetstoreError } from '../errors.js';
import { asByteString, toByteString } from '../json.js';
import type { Log } from '../log.js';
import {
  poolFor,
  type Notice,
  type PostgresClient,
  type PostgresPool,
  type Row,
} from './driver.js';
import { cast, op } from './sql-text.js';

/** The longest time of a statement in ms; it ends within the 8 s of a group commit. */
export const servingMs = 3_000;

/** The longest time in ms of a statement of a command, except for the steps of a migration. */
export const commandMs = 20_000;

/**
 * The longest time in ms of connecting, and of setting up the session afterwards, for servers,
 * whose clients wait, and for commands.
 */
const servingConnectMs = 2_000;
const commandConnectMs = 10_000;

/** The time in ms added to a statement's own timeout, so that the database reports it first. */
const graceMs = 500;

/**
 * The time in ms within which a failed read is sent again, because dead connections fail at once.
 */
const resendMs = 1_000;

/** The time in ms for which the database must work again before the end of an outage is logged. */
const steadyMs = 1_000;

/** The shortest time in ms between two renewals of all sessions. */
const renewMs = 1_000;

/** The SQLSTATE or error code of a statement that took too long, mostly because it waited. */
export const overdueStates = /^(57014|55P03|ETIMEDOUT)$/;

/** The SQLSTATE of a counter that would exceed the last id. */
export const outOfRange = '22003';

/** A statement that failed, or whose outcome is unknown; `cause` is the error of the driver. */
export class DatabaseFailure extends PetstoreError {
  /**
   * `not done`: the statement changed nothing and never will. `unknown`: it may have changed
   * something, or still may.
   */
  readonly outcome: 'not done' | 'unknown';

  constructor(cause: unknown, outcome: 'not done' | 'unknown') {
    const areIdsLeft = stateOf(cause) !== outOfRange;
    const message = areIdsLeft ? 'The database cannot be used now.' : 'There are no ids left.';
    super('unavailable', message, { cause });
    this.outcome = outcome;
  }
}

/** Returns the error of the driver in a failure, or the failure itself. */
export function causeOf(thrown: unknown): unknown {
  return thrown instanceof PetstoreError ? (thrown.cause ?? thrown) : thrown;
}

/** Returns the SQLSTATE of a failure (PostgreSQL manual, appendix A), or its error code, or ''. */
export function stateOf(thrown: unknown): string {
  return codeOf(causeOf(thrown)) ?? '';
}

/** Does nothing; for errors that are handled elsewhere. */
export const ignore = () => undefined;

/**
 * Retries `work` with exponential backoff of at most 250 ms.
 * @throws the last error if it is not transient, or after `timeoutMs`
 */
export async function retry<Value>(
  work: () => Promise<Value>,
  isTransient: (error: unknown) => boolean,
  timeoutMs = Number.POSITIVE_INFINITY,
): Promise<Value> {
  const giveUpAt = performance.now() + timeoutMs;

  for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, 250)) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error) || performance.now() > giveUpAt) throw error;
    }
    await wait(pauseMs);
  }
}

/**
 * The SQLSTATEs of an ERROR that leaves the outcome unknown: a lost connection (08), an unknown
 * completion (40003), a shutdown (57P), a system error (58), a bug (XX), or no SQLSTATE.
 */
const doubtfulStates = /^(08|40003|57P|58|XX|$)/;

/**
 * The SQLSTATEs of errors that a new session may avoid, such as after a failover or a change of
 * `search_path`, privileges or types.
 */
const outdatedSessionStates = /^(25006|42P01|3F000|42501|0A000)$/;

/** The SQLSTATEs of a pooler that lacks the prepared statement, or has it already. */
const poolerStates = /^(26000|42P05)$/;

/**
 * Requests results in the binary format. No setting changes that format, and the hexadecimal format
 * has twice as many bytes.
 */
const inBinary = { binary: true, types: { getTypeParser: () => readColumn } };

/** Returns a column as a byte string. Before `pg` 8.12 the driver has decoded it as UTF-8. */
function readColumn(bytes: Buffer | string) {
  return typeof bytes === 'string' ? toByteString(bytes) : asByteString(bytes.toString('latin1'));
}

const synchronousCommit = "pg_catalog.current_setting('synchronous_commit', true)";

/**
 * Sets up a session, so that a commit is durable or causes a warning, and no statement takes longer
 * than $1 ms. Each value is set even if it is right already, because a reload of the configuration
 * could change it. PgBouncer refuses these settings as parameters of the connection.
 *
 * Every statement can find its rows by an index. Sequential and bitmap scans are turned off, so
 * that plans made for an empty table use the index too. A cached plan with a sequential scan would
 * read all rows of a table that has grown since. The scans that PostgreSQL still plans then have an
 * enormous estimated cost. It would compile machine code for them, which takes 0.2 s in each
 * session, so `jit` is turned off too. Some engines do not have that setting.
 */
const setUpSession = `SELECT
  pg_catalog.set_config('client_min_messages', 'warning', false),
  pg_catalog.set_config('synchronous_commit', CASE
    WHEN ${op(synchronousCommit, '=', "'off'")} OR ${op(synchronousCommit, '=', "'local'")}
    THEN 'on' ELSE ${synchronousCommit}
  END, false),
  pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
  pg_catalog.set_config('lock_timeout', '0', false),
  pg_catalog.set_config('enable_seqscan', 'off', false),
  pg_catalog.set_config('enable_bitmapscan', 'off', false),
  CASE WHEN pg_catalog.current_setting('jit', true) IS NOT NULL
    THEN pg_catalog.set_config('jit', 'off', false) END,
  pg_catalog.set_config('statement_timeout', ${cast('$1', 'text')}, false)`;

/**
 * Sets up a session of a pool that the storage created. Every name must have its schema, and a
 * policy that would hide rows makes a statement fail. A caller's pool keeps its own values, because
 * the caller's statements may need them.
 */
const setUpOwnSession = `${setUpSession},
  pg_catalog.set_config('search_path', '', false),
  pg_catalog.set_config('row_security', 'off', false)`;

/** The lowest rate of a connection in bytes per ms at which a long value still arrives in time. */
const leastRate = 50;

/** The number of bytes that a statement may send without more time. */
const usualBytes = 2 ** 16;

/**
 * Returns the time in ms added to a statement's timeout because it sends long values. The time
 * grows in steps, so that sessions rarely change their `statement_timeout`.
 */
function sendingMs(values: readonly unknown[]) {
  let bytes = 0;
  for (const value of values) if (Buffer.isBuffer(value)) bytes += value.length;
  return bytes <= usualBytes ? 0 : 10_000 * Math.ceil(bytes / leastRate / 10_000);
}

/** The options of one statement. */
export interface StatementOptions {
  /** True if each connection prepares the statement and keeps its plan. @defaultValue true */
  readonly isPrepared?: boolean;
  /** True if the statement writes; a warning then leaves its outcome unknown. Set by `write`. */
  readonly isWrite?: boolean;
  /** The longest time in ms, if it is less than that of other statements. */
  readonly statementMs?: number | undefined;
  /** True if the time of the statement grows with the bytes that it sends. @defaultValue false */
  readonly mayBeLong?: boolean;
}

/** Sends a statement with the values of $1, $2 … and returns its rows. */
type Send = (
  text: string,
  values?: unknown[],
  options?: StatementOptions,
) => Promise<readonly Row[]>;

/** Reports that a statement on a table succeeded, or its failure. */
type Report = (table: string, failure?: unknown) => void;

/** The connections to one database. After `close` all statements reject with `unavailable`. */
export interface Connections {
  /**
   * Sends a statement that reads. Sends it once more if its connection was dead or its session
   * outdated.
   * @throws DatabaseFailure
   */
  readonly read: Send;

  /**
   * Sends a statement that writes, as a transaction of its own. Its rows prove that it is
   * committed.
   * @throws DatabaseFailure
   */
  readonly write: Send;

  /** The most connections at once; 0 if a caller's pool does not say it. */
  readonly maxConnections: number;

  /** Begins to log outages. Before that, errors are returned to the caller alone. */
  startLogging(): void;

  /**
   * Reports that records of a table were read, or why they could not be. Logs the beginning and the
   * end of an outage. An outage ends once all tables that failed work again.
   */
  readonly reportRead: Report;

  /** Reports that records were added to a table, or why they could not be. Logs as `reportRead`. */
  readonly reportWrite: Report;

  /** Ends the pool if the storage created it; otherwise removes all listeners from it. */
  close(): Promise<void>;
}

/** The state of one connection. */
interface Session {
  /** The time at which the connection was first used here, by `performance.now()`. */
  readonly since: number;
  /** Its `statement_timeout`, in ms; 0 until it is set up. */
  limitMs: number;
  /** The warning of the database during the last statement, or ''. */
  warning: string;
  removeListeners(): void;
}

/**
 * Opens connections to the database of a URL, or uses the caller's pool.
 * @param statementMs The longest time of a statement, in ms. If it is that of a command, connecting
 * may take 10 s instead of 2 s.
 * @param maxConnections The most connections at once; ignored if a pool is given.
 * @param log Receives a line when reading or writing begins to fail, and when it works again.
 * @throws as `poolFor`
 */
export async function connectionsTo(
  database: string | PostgresPool,
  statementMs: number,
  maxConnections = 1,
  log: Log = ignore,
): Promise<Connections> {
  const isOurs = typeof database === 'string';
  const connectMs = statementMs > servingMs ? commandConnectMs : servingConnectMs;
  const pool = isOurs ? await poolFor(database, maxConnections, connectMs) : database;

  /** Nothing is logged while `opening`. */
  let state: 'opening' | 'open' | 'closed' = 'opening';
  const reportRead = outageReport('be read');
  const reportWrite = outageReport('be written to');

  const sessions = new Map<PostgresClient, Session>();
  const inFlight = new Set<Promise<unknown>>();
  /** Sessions that began before this time may be dead or outdated, and are closed. */
  let trustedSince = Number.NEGATIVE_INFINITY;
  let mayPrepare = true;

  // The pool itself removes an idle connection that is lost.
  pool.on('error', ignore);
  // The listener must be there at once: a database may accept and end a connection in one packet.
  pool.on('connect', sessionOf);

  const write: Send = (text, values, options) => send(text, values, { ...options, isWrite: true });

  const read: Send = async (...statement) => {
    const trustedBefore = trustedSince;
    const resendUntil = performance.now() + resendMs;

    return send(...statement).catch((error: unknown) => {
      if (trustedSince === trustedBefore || performance.now() > resendUntil) throw error;
      return send(...statement);
    });
  };

  const send: Send = async (...statement) => {
    if (state === 'closed') throw closedError();

    const result = carryOut(...statement).finally(() => inFlight.delete(result));
    inFlight.add(result);
    return result;
  };

  const carryOut: Send = async (text, values = [], options = {}) => {
    const { isPrepared = true, isWrite = false, mayBeLong = false } = options;
    const longerMs = mayBeLong ? sendingMs(values) : 0;
    const timeoutMs = (options.statementMs ?? statementMs) + longerMs;
    // Named by its text, because another version of this program may share the session.
    const name =
      isPrepared && mayPrepare ? `petstore_${hash('sha256', text).slice(0, 32)}` : undefined;

    const client = await checkOut(timeoutMs).catch((error: unknown) => {
      throw new DatabaseFailure(error, 'not done');
    });
    const session = sessionOf(client);
    session.warning = '';

    try {
      const result = client.query({ text, values, name, ...inBinary });
      const { rows } = await within(result, timeoutMs + graceMs);

      // From damaged bytes the driver may make several results, or none.
      if (!Array.isArray(rows)) throw new Error('the result has no rows');
      // The warning may be that the commit did not wait for a synchronous standby.
      if (isWrite && session.warning)
        throw Object.assign(new Error(session.warning), { severity: 'ERROR', code: '40003' });

      client.release();
      return rows;
    } catch (error) {
      const sqlState = stateOf(error);
      const isLost = isSessionLost(error);
      const now = performance.now();
      const mustRenew = now - trustedSince >= renewMs && outdatedSessionStates.test(sqlState);
      // A cause that ends one session usually ends the others too.
      if (isLost || mustRenew) trustedSince = now;
      client.release(isLost);

      if (name !== undefined && poolerStates.test(sqlState)) {
        mayPrepare = false;
        return send(text, values, options);
      }

      const isUnknown = isLost || doubtfulStates.test(sqlState);
      throw new DatabaseFailure(error, isUnknown ? 'unknown' : 'not done');
    }
  };

  /**
   * Takes a connection that is set up and not known to be dead or outdated.
   * @param limitMs Its `statement_timeout`.
   */
  async function checkOut(limitMs: number): Promise<PostgresClient> {
    const connecting = pool.connect();
    const client = await within(connecting, connectMs).catch((error: unknown) => {
      connecting.then((late) => late.release(), ignore);
      throw error;
    });

    const session = sessionOf(client);
    if (session.since < trustedSince) {
      client.release(true);
      return checkOut(limitMs);
    }
    if (session.limitMs === limitMs) return client;

    try {
      const text = isOurs ? setUpOwnSession : setUpSession;
      const setting = client.query({ text, values: [limitMs], ...inBinary });
      await within(setting, connectMs);
      session.limitMs = limitMs;
      return client;
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  /** Returns the state of a connection. Attaches the listeners to a new connection. */
  function sessionOf(client: PostgresClient): Session {
    const known = sessions.get(client);
    if (known) return known;

    const onEnd = () => sessions.delete(client);
    const onNotice = ({ severity = '', message, routine }: Notice) => {
      const isWarning = !/^(NOTICE|INFO|LOG|DEBUG\d?)$/.test(severity);
      // A trigger's RAISE WARNING says nothing about the commit.
      if (isWarning && routine !== 'exec_stmt_raise') session.warning = message || 'a warning';
    };
    // Without an error listener, a lost connection would end the process.
    client.on('error', ignore);
    client.on('end', onEnd);
    client.on('notice', onNotice);

    const removeListeners = () => {
      client.removeListener('error', ignore);
      client.removeListener('end', onEnd);
      client.removeListener('notice', onNotice);
    };
    const session = { since: performance.now(), limitMs: 0, warning: '', removeListeners };
    sessions.set(client, session);
    return session;
  }

  /** Returns a function that logs the beginning and the end of outages of one ability. */
  function outageReport(what: string): Report {
    let ability: 'working' | 'failing' | 'recovering' = 'working';
    const failingTables = new Set<string>();
    let recovery: NodeJS.Timeout | undefined;

    function recover() {
      ability = 'working';
      if (state === 'open') log('info', `the database can ${what} again`);
    }

    return (table, failure) => {
      if (state !== 'open') return;

      if (failure !== undefined) {
        clearTimeout(recovery);
        if (ability === 'working')
          log('error', `the database cannot ${what}`, { error: reasonOf(causeOf(failure)) });
        ability = 'failing';
        failingTables.add(table);
      } else if (ability === 'failing') {
        failingTables.delete(table);
        if (failingTables.size > 0) return;

        ability = 'recovering';
        recovery = setTimeout(recover, steadyMs).unref();
      }
    };
  }

  async function close() {
    state = 'closed';
    // Our own pool keeps its listeners, because its last connections may still be lost.
    if (isOurs) return pool.end();

    // Without an error listener, the loss of a connection in use would end the process.
    await Promise.allSettled(inFlight);
    pool.removeListener('error', ignore);
    pool.removeListener('connect', sessionOf);
    for (const session of sessions.values()) session.removeListeners();
  }

  const startLogging = () => {
    if (state === 'opening') state = 'open';
  };

  return {
    read,
    write,
    maxConnections: isOurs ? maxConnections : (database.options?.max ?? 0),
    startLogging,
    reportRead,
    reportWrite,
    close,
  };
}

/**
 * True if a failure ends its session. An ERROR does not, and proves that the statement was undone.
 * A FATAL or a PANIC ends the session and may follow the commit. In a language other than English
 * the severity is not recognised, so an ERROR is treated as the end of the session too. The
 * exception is 22P02, with which our own statements fail on purpose.
 */
function isSessionLost(error: unknown) {
  const isError = error instanceof Error && 'severity' in error && error.severity === 'ERROR';
  return !isError && stateOf(error) !== '22P02';
}

/** Returns the value of a promise. @throws Error `ETIMEDOUT` after `timeoutMs` */
function within<Value>(promise: Promise<Value>, timeoutMs: number): Promise<Value> {
  return new Promise((resolve, reject) => {
    const giveUp = () =>
      reject(Object.assign(new Error(`no response within ${timeoutMs} ms`), { code: 'ETIMEDOUT' }));
    // Checked a tick later, because a response may have arrived during a busy tick.
    const timer = setTimeout(() => setImmediate(giveUp), timeoutMs);

    promise.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}
