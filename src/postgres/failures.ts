/** Recognises transient failures of a database, and adds a hint to the others. */
import { performance } from 'node:perf_hooks';
import { PetstoreError, reasonOf } from '../errors.js';
import type { Log } from '../log.js';
import { causeOf, DatabaseFailure, retry, stateOf } from './connections.js';

/**
 * Matches the summaries of transient failures: the database is starting, stopping, full or
 * unreachable, or this machine has no free port, file or buffer. The last alternatives are words of
 * `pg` about a lost connection: a database that cannot start another process refuses even the
 * request for TLS.
 */
const transientFailures = new RegExp(
  '^(08|40|53|55P03|57|' +
    'E(CONN|TIMEDOUT|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|PIPE|AI_AGAIN|NOTFOUND|' +
    'NOENT connect |AGAIN|MFILE|NFILE|ADDRNOTAVAIL|NOBUFS)|' +
    '\\S* (Connection terminated|Client (has encountered|was closed)|' +
    'timeout exceeded when trying to connect|' +
    'There was an error establishing an SSL))',
);

/** The failures that are not transient: a pattern of the summary, and a hint for the operator. */
const hints = [
  [/^ECONNREFUSED /, 'start it, or name another address'],
  [/^ENOTFOUND /, 'there is no such host; name another'],
  [/^3D000 /, 'there is no such database; create it, or name another'],
  [/^28(000|P01) /, 'check its user and password'],
  // From PostgreSQL 15 on, only the owner of the database may create tables without a grant.
  [
    /^42501 .*for schema/,
    'migrate as the owner of the database, or GRANT CREATE ON SCHEMA public to its user',
  ],
  [/^42501 /, 'GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO its user'],
  [/^53300 /, 'it has no free connection; raise max_connections'],
  [
    /password must be a/,
    'it asks for a password; put it into the URL: postgres://user:password@host/name',
  ],
  [/does not support SSL/, 'it does not speak TLS; write sslmode=disable into its URL'],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID /,
    'its certificate is for another host; write a host of the certificate into the URL',
  ],
  [/^CERT_HAS_EXPIRED /, 'its certificate has expired; renew it'],
  [/^CERT_NOT_YET_VALID /, 'its certificate is not valid yet; check the clock of this machine'],
  [
    /certificate/i,
    'name its authority in the URL by sslrootcert=FILE, or trust any by sslmode=no-verify',
  ],
] as const;

/** Returns a failure as one line: its SQLSTATE or error code, if any, and its message. */
function summaryOf(thrown: unknown) {
  return `${stateOf(thrown)} ${reasonOf(causeOf(thrown))}`;
}

/**
 * Runs `open` until it succeeds or fails for a reason that is not transient. While it fails, it
 * logs a line every 5 s.
 * @throws the last error if it is not transient
 */
export function waitForDatabase<Value>(open: () => Promise<Value>, log: Log): Promise<Value> {
  let nextLineAt = 0;

  return retry(open, (error) => {
    if (!transientFailures.test(summaryOf(error))) return false;

    if (performance.now() >= nextLineAt) {
      nextLineAt = performance.now() + 5_000;
      log('warn', 'waiting for the database', { error: reasonOf(causeOf(error)) });
    }
    return true;
  });
}

/** @deprecated use waitForDatabase; removed in 2.0 */
export const untilThere = waitForDatabase;

/**
 * Throws a failure of the database with a hint.
 * @throws PetstoreError `storage_unusable`; a PetstoreError of another origin as it is
 */
export function throwUnusable(
  thrown: unknown,
  defaultHint = 'correct the cause, or name another database',
): never {
  if (thrown instanceof PetstoreError && !(thrown instanceof DatabaseFailure)) throw thrown;

  const cause = causeOf(thrown);
  const hint = hints.find(([pattern]) => pattern.test(summaryOf(thrown)))?.[1] ?? defaultHint;

  throw new PetstoreError(
    'storage_unusable',
    `the database cannot be used: ${hint} (${reasonOf(cause)})`,
    { cause },
  );
}
