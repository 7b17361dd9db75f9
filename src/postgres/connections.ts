/**
 * Asks a database over connections that may be dead or outdated, and tells what became of each
 * statement.
 */
import { hash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { closedError } from '../engine/index.js';
import { codeOf, reasonOf, PetstoreError } from '../errors.js';
import { asByteString, toByteString, type ByteString } from '../json.js';
import type { Log } from '../log.js';
import {
  connectMs,
  poolFor,
  type Notice,
  type PostgresClient,
  type PostgresPool,
  type Row,
} from './driver.js';

/** A statement that is not known to have been carried out; `cause` is what the driver threw. */
export class DatabaseFailure extends PetstoreError {
  /** Whether it may have been, or may still be; else it changed nothing, and never will. */
  readonly isUnknown: boolean;

  constructor(cause: unknown, isUnknown: boolean) {
    const isOutOfRange = stateOf(cause) === '22003';
    super(
      'unavailable',
      isOutOfRange ? 'There are no ids left.' : 'The database cannot be used now.',
      { cause },
    );
    this.isUnknown = isUnknown;
  }
}

export const ignore = () => undefined;

export function causeOf(thrown: unknown): unknown {
  return thrown instanceof PetstoreError ? (thrown.cause ?? thrown) : thrown;
}

/** The SQLSTATE (appendix A of PostgreSQL's manual) or the name of a system error, or ''. */
export function stateOf(thrown: unknown): string {
  return codeOf(causeOf(thrown)) ?? '';
}

/**
 * Does something until it works; short pauses double, up to 250 ms. @throws what may not pass, or
 * has not in time
 */
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
 * Even an ERROR leaves it open then: lost (08), unknown (40003), shutdown (57P), system (58), a bug
 * (XX), none.
 */
const doubtfulStates = /^(08|40003|57P|58|XX|$)/;
/** A new session may do better, as after a failover or a change of search_path, rights or types. */
const statesOfSessions = ['25006', '42P01', '3F000', '42501', '0A000'];
/**
 * In binary no setting converts bytes, and they are sent once; in hexadecimal they would be twice
 * as many.
 */
const asBytes = { binary: true, types: { getTypeParser: () => byteStringOf } };

/** A driver from before 8.12 decodes them first. */
function byteStringOf(bytes: Buffer | string): ByteString {
  return typeof bytes === 'string' ? toByteString(bytes) : asByteString(bytes.toString('latin1'));
}

/**
 * Commits last, or a warning comes; no statement outlasts our patience, however long others hold a
 * lock. Set though it be right, against a reload of the configuration; not as the connection
 * starts, which a PgBouncer refuses.
 */
const settings = `SELECT
  set_config('client_min_messages', 'warning', false),
  set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit', true) IN ('off', 'local') THEN 'on'
    ELSE current_setting('synchronous_commit', true) END, false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('lock_timeout', '0', false),
  set_config('statement_timeout', $1::text, false)`;

/** For a statement: a server's end within a group commit's 8 s. */
export const servingMs = 3_000;
/**
 * For how long one that reads may be sent again: a connection that was dead before is found out at
 * once.
 */
const resendMs = 1_000;
/** For how long the database must do what is asked before the log says that it does. */
const steadyMs = 1_000;
export const copyingMs = 20_000;
/** The database itself is to answer first. */
const graceMs = 500;

interface Asking {
  readonly isPrepared?: boolean;
  /** A warning leaves it open what became of it. */
  readonly isWrite?: boolean;
  readonly statementMs?: number | undefined;
}

export type Connections = Awaited<ReturnType<typeof connectionsTo>>;

/** To the database of a URL, or those of somebody's pool. @throws as `poolFor` */
export async function connectionsTo(
  database: string | PostgresPool,
  statementMs: number,
  maxConnections = 1,
  log: Log = ignore,
) {
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, maxConnections) : database;
  const sessions = new Map<PostgresClient, ReturnType<typeof sessionIn>>();
  const underWay = new Set<Promise<unknown>>();
  let trustedSince = Number.NEGATIVE_INFINITY;
  let mayPrepare = true;
  /** Until then a storage opens, and what that fails by is thrown. */
  let hasAnswered = false;
  /**
   * What the log said that the database cannot do, with the timer that is to say that it can again.
   */
  const failing = new Map<string, NodeJS.Timeout | undefined>();
  let isClosed = false;
  // The pool takes an idle connection out that is lost.
  pool.on('error', ignore);
  // At once, for what says that it is connected may say in the same breath that it ends.
  pool.on('connect', sessionOf);

  /**
   * Carries out a statement that writes, as a transaction; rows prove that it is committed. @throws
   * DatabaseFailure
   */
  async function write(
    text: string,
    values: unknown[] = [],
    asking: Asking = {},
  ): Promise<readonly Row[]> {
    return send(text, values, { ...asking, isWrite: true });
  }

  /**
   * The same for one that reads: sent once more where its connection was dead at once, or its
   * session outdated.
   */
  async function read(
    text: string,
    values: unknown[] = [],
    asking: Asking = {},
  ): Promise<readonly Row[]> {
    const since = trustedSince;
    const startedAt = performance.now();
    try {
      const rows = await send(text, values, asking).catch((error: unknown) => {
        if (trustedSince <= since || performance.now() - startedAt > resendMs) throw error;
        return send(text, values, asking);
      });
      hasAnswered = true;
      tell('be read');
      return rows;
    } catch (error) {
      tell('be read', error);
      throw error;
    }
  }

  /**
   * Tells the log when the database stops doing what is asked, and when it has done it again for a
   * while.
   */
  function tell(what: 'be read' | 'be written to', failure?: unknown) {
    if (isClosed || !hasAnswered) return;
    if (failure !== undefined) {
      clearTimeout(failing.get(what));
      if (!failing.has(what))
        log('error', `the database cannot ${what}`, { error: reasonOf(causeOf(failure)) });
      failing.set(what, undefined);
    } else if (failing.has(what) && failing.get(what) === undefined) {
      const tellRecovery = () => {
        failing.delete(what);
        if (!isClosed) log('info', `the database can ${what} again`);
      };
      failing.set(what, setTimeout(tellRecovery, steadyMs).unref());
    }
  }

  /**
   * Has new sessions take the place of all there are, once a second at most: what was changed may
   * be right in them.
   */
  function renew() {
    const now = performance.now();
    if (now - trustedSince >= 1_000) trustedSince = now;
  }

  /** Ends the pool where it is ours, else lets go of it once nothing is under way. */
  async function close() {
    isClosed = true;
    // It keeps its listeners: its last connections may still be lost.
    if (isOurs) return pool.end();
    // A connection in use that is lost while nobody listens ends the process.
    await Promise.allSettled(underWay);
    pool.removeListener('error', ignore);
    pool.removeListener('connect', sessionOf);
    for (const session of sessions.values()) session.leave();
    sessions.clear();
  }

  async function send(text: string, values: unknown[], asking: Asking): Promise<readonly Row[]> {
    if (isClosed) throw closedError();
    const answer = carryOut(text, values, asking).finally(() => underWay.delete(answer));
    underWay.add(answer);
    return answer;
  }

  async function carryOut(
    text: string,
    values: unknown[],
    asking: Asking,
  ): Promise<readonly Row[]> {
    // Of this very text, as another version of ours may have prepared another.
    const name =
      asking.isPrepared && mayPrepare ? `petstore_${hash('sha256', text).slice(0, 32)}` : undefined;
    const client = await checkOut().catch((error: unknown) => {
      throw new DatabaseFailure(error, false);
    });
    const session = sessionOf(client);
    session.warning = '';
    try {
      const query = { text, values, ...asBytes, ...(name !== undefined && { name }) };
      const { rows } = await within(
        (asking.statementMs ?? statementMs) + graceMs,
        client.query(query),
      );
      // Of replies that were damaged on their way the driver may make several answers, or none.
      if (!Array.isArray(rows)) throw new Error('the answer has no rows');
      // That a synchronous standby was not waited for, perhaps: its outcome is unknown.
      if (asking.isWrite && session.warning)
        throw Object.assign(new Error(session.warning), { severity: 'ERROR', code: '40003' });
      client.release();
      return rows;
    } catch (error) {
      const state = stateOf(error);
      // All else ends the connection, and mostly others with it; so it seems where messages are in
      // another language. 22P02 is what our own statements end themselves by, in whatever language.
      const isLost =
        !(error instanceof Error && 'severity' in error && error.severity === 'ERROR') &&
        state !== '22P02';
      if (isLost) trustedSince = performance.now();
      else if (statesOfSessions.includes(state)) renew();
      client.release(isLost);
      // A pooler lacks the prepared statement, or has it already.
      if (name !== undefined && ['26000', '42P05'].includes(state)) {
        mayPrepare = false;
        return send(text, values, asking);
      }
      // Only an ERROR undoes a statement, which is a transaction of its own: a FATAL or a PANIC may
      // follow the commit.
      throw new DatabaseFailure(error, isLost || doubtfulStates.test(state));
    }
  }

  /** Not known to be dead or outdated. */
  async function checkOut(): Promise<PostgresClient> {
    const client = await within(connectMs, pool.connect(), (late) => late.release());
    const session = sessionOf(client);
    if (session.since < trustedSince) {
      client.release(true);
      return checkOut();
    }
    if (session.isSetUp) return client;
    const setting = client.query({ text: settings, values: [statementMs], ...asBytes });
    await within(connectMs, setting).catch((error: unknown) => {
      client.release(true);
      throw error;
    });
    session.isSetUp = true;
    return client;
  }

  function sessionOf(client: PostgresClient) {
    const session = sessions.get(client) ?? sessionIn(client, () => sessions.delete(client));
    sessions.set(client, session);
    return session;
  }

  return { write, read, tell, close };
}

function sessionIn(client: PostgresClient, ended: () => void) {
  const hear = ({ severity = '', message, routine }: Notice) => {
    const isWarning = !/^(NOTICE|INFO|LOG|DEBUG\d?)$/.test(severity);
    // Those of PL/pgSQL functions do not count.
    if (isWarning && routine !== 'exec_stmt_raise') session.warning = message || 'a warning';
  };
  // An error that nobody listens for ends the process.
  client.on('error', ignore);
  client.on('end', ended);
  client.on('notice', hear);
  const leave = () => {
    client.removeListener('error', ignore);
    client.removeListener('end', ended);
    client.removeListener('notice', hear);
  };
  const session = { since: performance.now(), isSetUp: false, warning: '', leave };
  return session;
}

/** What comes later goes to `late`. */
function within<Value>(
  ms: number,
  promise: Promise<Value>,
  late: (value: Value) => void = ignore,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    let isOverdue = false;
    const giveUp = () => {
      isOverdue = true;
      reject(Object.assign(new Error(`no answer within ${ms} ms`), { code: 'ETIMEDOUT' }));
    };
    // After a busy turn of the event loop the answer may be there, but not read yet.
    const timer = setTimeout(() => setImmediate(giveUp), ms);
    promise
      .finally(() => clearTimeout(timer))
      .then((value) => (isOverdue ? late(value) : resolve(value)), reject);
  });
}
