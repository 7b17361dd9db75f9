/**
 * Sends statements to a database over connections that may be dead or outdated, and says of each
 * whether it was carried out.
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
  connectMs,
  poolFor,
  type Notice,
  type PostgresClient,
  type PostgresPool,
  type Row,
} from './driver.js';

/** How long a statement may take, so that a server has its end within the 8 s of a group commit. */
export const servingMs = 3_000;

/** How long one may take that copies or imports. */
export const copyingMs = 20_000;

/** How much longer we wait than the database lets a statement last: it is to answer first. */
const graceMs = 500;

/** How soon a read must have failed to be sent again, for a dead connection is found at once. */
const resendMs = 1_000;

/** How long the database must do something again before the log says so. */
const steadyMs = 1_000;

/** How often at most all sessions are renewed for what a new one may do better. */
const renewMs = 1_000;

/** A statement that is not known to have been carried out; `cause` is what the driver threw. */
export class DatabaseFailure extends PetstoreError {
  /**
   * `not done`: the statement changed nothing, and never will. `unknown`: it may have been carried
   * out, or may be yet.
   */
  readonly outcome: 'not done' | 'unknown';

  constructor(cause: unknown, outcome: 'not done' | 'unknown') {
    // 22003 is a number out of range: the counter's.
    const areIdsLeft = stateOf(cause) !== '22003';
    const message = areIdsLeft ? 'The database cannot be used now.' : 'There are no ids left.';
    super('unavailable', message, { cause });
    this.outcome = outcome;
  }
}

/** What a failure comes from: what the driver threw. */
export function causeOf(thrown: unknown): unknown {
  return thrown instanceof PetstoreError ? (thrown.cause ?? thrown) : thrown;
}

/** The SQLSTATE (appendix A of PostgreSQL's manual) or the name of a system error, or ''. */
export function stateOf(thrown: unknown): string {
  return codeOf(causeOf(thrown)) ?? '';
}

/** For what may fail, and for what nobody hears. */
export const ignore = () => undefined;

/**
 * Does something until it works. The pauses between double, up to 250 ms.
 * @throws What may not pass, or has not passed in time.
 */
export async function retry<Value>(
  work: () => Promise<Value>,
  mayPass: (error: unknown) => boolean,
  timeoutMs = Number.POSITIVE_INFINITY,
): Promise<Value> {
  const giveUpAt = performance.now() + timeoutMs;

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
 * SQLSTATEs whose ERROR too leaves the outcome unknown: of a lost connection (08), an unknown
 * completion (40003), a shutdown (57P), the system (58), a bug (XX); or there is none.
 */
const doubtfulStates = /^(08|40003|57P|58|XX|$)/;

/**
 * SQLSTATEs that a new session may not meet, as after a failover or a change of search_path, rights
 * or types.
 */
const statesOfSessions = /^(25006|42P01|3F000|42501|0A000)$/;

/** SQLSTATEs of a pooler that lacks the prepared statement, or has it already. */
const statesOfPoolers = /^(26000|42P05)$/;

/**
 * Columns come in binary. No setting converts them there, and bytes are sent once, where
 * hexadecimal digits would be twice as many.
 */
const inBinary = { binary: true, types: { getTypeParser: () => readColumn } };

/** A driver from before 8.12 has decoded the bytes as UTF-8. */
function readColumn(bytes: Buffer | string) {
  return typeof bytes === 'string' ? toByteString(bytes) : asByteString(bytes.toString('latin1'));
}

/**
 * Sets up a session: a commit lasts, or a warning comes, and no statement outlasts $1 ms, however
 * long others hold a lock. What is right already is set too, against a reload of the configuration.
 * It is not set as the connection starts, for PgBouncer refuses that.
 */
const setUpSession = `SELECT
  set_config('client_min_messages', 'warning', false),
  set_config('synchronous_commit', CASE
    WHEN current_setting('synchronous_commit', true) IN ('off', 'local') THEN 'on'
    ELSE current_setting('synchronous_commit', true)
  END, false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('lock_timeout', '0', false),
  set_config('statement_timeout', $1::text, false)`;

/** How one statement is sent. */
export interface StatementOptions {
  /** Whether each connection prepares it, and keeps its plan. @defaultValue true */
  readonly isPrepared?: boolean;
  /** Whether it writes, so that a warning leaves its outcome unknown; `write` says so itself. */
  readonly isWrite?: boolean;
  /** How long it may take, where that is less than others may. */
  readonly statementMs?: number | undefined;
}

/** Sends a statement with the values of $1, $2 …, and answers its rows. */
type Send = (
  text: string,
  values?: unknown[],
  options?: StatementOptions,
) => Promise<readonly Row[]>;

/** The connections to one database. After `close` all statements reject with `unavailable`. */
export interface Connections {
  /**
   * Sends a statement that reads; once more where its connection was found dead at once, or its
   * session outdated. The log hears when the database cannot be read.
   * @throws DatabaseFailure
   */
  readonly read: Send;

  /**
   * Sends a statement that writes, as a transaction of its own: its rows prove that it is
   * committed.
   * @throws DatabaseFailure
   */
  readonly write: Send;

  /** Lets the log hear what became of a batch: it failed by what is given, or was stored. */
  reportWrite(failure?: unknown): void;

  /** Ends a pool of ours; lets go of another's once nothing is under way. */
  close(): Promise<void>;
}

/** What is known of one connection. */
interface Session {
  /** When it was made, or first seen. */
  readonly since: number;
  isSetUp: boolean;
  /** What the database warned of during its last statement, or ''. */
  warning: string;
  /** Takes our listeners from it. */
  leave(): void;
}

/**
 * Connects to the database of a URL, or uses somebody's pool.
 * @param statementMs How long a statement may take.
 * @param maxConnections The most connections at once, where the pool is ours.
 * @param log Hears when the database cannot be read or written to, and when it can again.
 * @throws as `poolFor`
 */
export async function connectionsTo(
  database: string | PostgresPool,
  statementMs: number,
  maxConnections = 1,
  log: Log = ignore,
): Promise<Connections> {
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, maxConnections) : database;

  /** Until the first answer the log has no line: whoever opens a storage hears what it fails by. */
  let state: 'opening' | 'open' | 'closed' = 'opening';
  const reportRead = outageReport('be read');
  const reportWrite = outageReport('be written to');

  const sessions = new Map<PostgresClient, Session>();
  const underWay = new Set<Promise<unknown>>();
  /** A session from before this moment may be dead or outdated, and is not used again. */
  let trustedSince = Number.NEGATIVE_INFINITY;
  let mayPrepare = true;

  // The pool itself takes out an idle connection that is lost.
  pool.on('error', ignore);
  // A database may say in one breath that it is connected and that it ends.
  pool.on('connect', sessionOf);

  const write: Send = (text, values, options) => send(text, values, { ...options, isWrite: true });

  const read: Send = async (...statement) => {
    try {
      const rows = await sendRead(...statement);
      if (state === 'opening') state = 'open';
      reportRead();
      return rows;
    } catch (error) {
      reportRead(error);
      throw error;
    }
  };

  const sendRead: Send = (...statement) => {
    const trustedBefore = trustedSince;
    const resendUntil = performance.now() + resendMs;

    return send(...statement).catch((error: unknown) => {
      if (trustedSince === trustedBefore || performance.now() > resendUntil) throw error;
      return send(...statement);
    });
  };

  const send: Send = async (...statement) => {
    if (state === 'closed') throw closedError();

    const answer = carryOut(...statement).finally(() => underWay.delete(answer));
    underWay.add(answer);
    return answer;
  };

  const carryOut: Send = async (text, values = [], options = {}) => {
    const { isPrepared = true, isWrite = false, statementMs: timeoutMs = statementMs } = options;
    // The name is of this very text, as another version of ours may have prepared another.
    const name =
      isPrepared && mayPrepare ? `petstore_${hash('sha256', text).slice(0, 32)}` : undefined;

    const client = await checkOut().catch((error: unknown) => {
      throw new DatabaseFailure(error, 'not done');
    });
    const session = sessionOf(client);
    session.warning = '';

    try {
      const answer = client.query({ text, values, name, ...inBinary });
      const { rows } = await inTime(answer, timeoutMs + graceMs);

      // Of a reply that was damaged on its way the driver may make several answers, or none.
      if (!Array.isArray(rows)) throw new Error('the answer has no rows');
      // The warning may be that a synchronous standby was not waited for.
      if (isWrite && session.warning)
        throw Object.assign(new Error(session.warning), { severity: 'ERROR', code: '40003' });

      client.release();
      return rows;
    } catch (error) {
      const sqlState = stateOf(error);
      const isLost = isSessionLost(error);
      const now = performance.now();
      // What was changed may be right in new sessions.
      const mayRenew = now - trustedSince >= renewMs && statesOfSessions.test(sqlState);
      // What ends one session mostly ends others with it.
      if (isLost || mayRenew) trustedSince = now;
      client.release(isLost);

      if (name !== undefined && statesOfPoolers.test(sqlState)) {
        mayPrepare = false;
        return send(text, values, options);
      }

      const isUnknown = isLost || doubtfulStates.test(sqlState);
      throw new DatabaseFailure(error, isUnknown ? 'unknown' : 'not done');
    }
  };

  /** A connection that is set up, and not known to be dead or outdated. */
  async function checkOut(): Promise<PostgresClient> {
    const connecting = pool.connect();
    const client = await inTime(connecting, connectMs).catch((error: unknown) => {
      connecting.then((late) => late.release(), ignore);
      throw error;
    });

    const session = sessionOf(client);
    if (session.since < trustedSince) {
      client.release(true);
      return checkOut();
    }
    if (session.isSetUp) return client;

    try {
      const setting = client.query({ text: setUpSession, values: [statementMs], ...inBinary });
      await inTime(setting, connectMs);
      session.isSetUp = true;
      return client;
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  /** What is known of a connection, which is listened to from then on. */
  function sessionOf(client: PostgresClient): Session {
    const known = sessions.get(client);
    if (known) return known;

    const onEnd = () => sessions.delete(client);
    const onNotice = ({ severity = '', message, routine }: Notice) => {
      const isWarning = !/^(NOTICE|INFO|LOG|DEBUG\d?)$/.test(severity);
      // The warnings of PL/pgSQL functions do not count.
      if (isWarning && routine !== 'exec_stmt_raise') session.warning = message || 'a warning';
    };
    // An error that nobody listens for would end the process.
    client.on('error', ignore);
    client.on('end', onEnd);
    client.on('notice', onNotice);

    const leave = () => {
      client.removeListener('error', ignore);
      client.removeListener('end', onEnd);
      client.removeListener('notice', onNotice);
    };
    const session = { since: performance.now(), isSetUp: false, warning: '', leave };
    sessions.set(client, session);
    return session;
  }

  /** Logs when the database stops doing something, and when it has done it again for a while. */
  function outageReport(what: string) {
    let ability: 'working' | 'failing' | 'recovering' = 'working';
    let recovery: NodeJS.Timeout | undefined;

    function recover() {
      ability = 'working';
      if (state === 'open') log('info', `the database can ${what} again`);
    }

    return (failure?: unknown) => {
      if (state !== 'open') return;

      if (failure !== undefined) {
        clearTimeout(recovery);
        if (ability === 'working')
          log('error', `the database cannot ${what}`, { error: reasonOf(causeOf(failure)) });
        ability = 'failing';
      } else if (ability === 'failing') {
        ability = 'recovering';
        recovery = setTimeout(recover, steadyMs).unref();
      }
    };
  }

  async function close() {
    state = 'closed';
    // Our pool keeps its listeners: its last connections may still be lost.
    if (isOurs) return pool.end();

    // A connection in use that is lost while nobody listens would end the process.
    await Promise.allSettled(underWay);
    pool.removeListener('error', ignore);
    pool.removeListener('connect', sessionOf);
    for (const session of sessions.values()) session.leave();
  }

  return { read, write, reportWrite, close };
}

/**
 * Whether a failure ends its session. Only an ERROR leaves the session as it was, and undoes the
 * statement, which is a transaction of its own: a FATAL or a PANIC may follow the commit. Where
 * messages are in another language than English, an ERROR is taken for the end of its session too;
 * but not 22P02, by which our own statements end themselves.
 */
function isSessionLost(error: unknown) {
  const isError = error instanceof Error && 'severity' in error && error.severity === 'ERROR';
  return !isError && stateOf(error) !== '22P02';
}

/** Waits for a value, but only for so long. @throws ETIMEDOUT */
function inTime<Value>(promise: Promise<Value>, timeoutMs: number): Promise<Value> {
  return new Promise((resolve, reject) => {
    const giveUp = () =>
      reject(Object.assign(new Error(`no answer within ${timeoutMs} ms`), { code: 'ETIMEDOUT' }));
    // After a busy turn of the event loop the answer may be there, and not be read yet.
    const timer = setTimeout(() => setImmediate(giveUp), timeoutMs);

    promise.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}
