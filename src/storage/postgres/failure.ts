/** Owns the meaning of what goes wrong with a database: was the statement carried out, and what a client is told. */
import { messageOf, PetstoreError } from '../../errors.js';

/**
 * What is known of a statement that failed. `no`: it changed nothing. `again`: the same, and the next try may succeed.
 * `unknown`: it may have been carried out, and the connection is of no more use.
 */
export type Outcome = 'no' | 'again' | 'unknown';

/** A statement that failed, or for which there was no connection; `cause` is what the driver threw. */
export class DatabaseFailure extends PetstoreError {
  readonly outcome: Outcome;

  constructor(outcome: Outcome, cause: unknown) {
    super('unavailable', told.get(sqlStateOf(cause) ?? '') ?? 'The database cannot be used now.', { cause });
    this.outcome = outcome;
  }
}

const told = new Map([
  ['22003', 'There are no ids left.'],
  ['25006', 'The database takes no writes.'],
  ['53100', 'The database is full.'],
]);

/** A null where none may be: so our statement for a batch ends where it finds one of its keys taken (see `table`). */
const keyTakenState = '23502';

/** Serialization failure and deadlock; CockroachDB uses the first for whatever its clients are to try again. */
const againStates: ReadonlySet<string> = new Set(['40001', '40P01', keyTakenState]);

/**
 * The classes of errors that undo their statement. Not among them: lost connections (08), a completion that the server
 * does not know itself (40003), shutdowns (57P), and faults of system or server (58, XX), which may come behind a commit.
 */
const refusedClasses: ReadonlySet<string> = new Set(['0A', '22', '23', '25', '26', '28', '3D', '3F', '42', '44', '53', '54', '55']);

/** What a driver's error says of the statement that it was thrown for. */
export function outcomeOf(thrown: unknown): Outcome {
  const state = sqlStateOf(thrown) ?? '';
  if (againStates.has(state)) return 'again';
  // 57014 is a statement that was cancelled, by its time limit for one.
  return refusedClasses.has(state.slice(0, 2)) || state === '57014' ? 'no' : 'unknown';
}

/** Whether somebody else has used an idempotency key of the batch meanwhile; nothing of the batch is there. */
export function isKeyTaken(thrown: unknown): boolean {
  return thrown instanceof DatabaseFailure && sqlStateOf(thrown.cause) === keyTakenState;
}

/**
 * Whether another connection may do better than the one that this was thrown on: sessions from before a failover write to
 * what is a standby now, and those from before a default changed stay read-only for ever.
 */
export function isOfSession(thrown: unknown): boolean {
  return sqlStateOf(thrown) === '25006';
}

/** The five characters of appendix A of PostgreSQL's manual, or the name of a system error; undefined without either. */
export function sqlStateOf(thrown: unknown): string | undefined {
  const code: unknown = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

const mends = new Map([
  ['ECONNREFUSED', 'start it, or name another address'],
  ['ENOTFOUND', 'there is no such host: name another'],
  ['3D000', 'there is no such database: create it, or name another'],
  ['28000', 'see to its user and password'],
  ['28P01', 'see to its user and password'],
  ['42501', 'its user needs the right to SELECT, INSERT and UPDATE the tables petstore_*'],
  ['53300', 'it has no connection left: raise max_connections'],
]);

/** Of who makes the tables: in PostgreSQL 15 and later only the owner of the database may do so without being granted it. */
const migratingMends = new Map([...mends, ['42501', 'migrate as the owner of the database, or GRANT CREATE ON SCHEMA public to its user']]);

/** A `storage_unusable` of one line for what opening failed by, or migrating. */
export function unusableDatabase(thrown: unknown, doing: 'opening' | 'migrating' = 'opening'): PetstoreError {
  if (thrown instanceof PetstoreError && thrown.code !== 'unavailable') return thrown;
  const cause = thrown instanceof DatabaseFailure ? thrown.cause : thrown;
  const mend = (doing === 'migrating' ? migratingMends : mends).get(sqlStateOf(cause) ?? '') ?? 'see to it, or name another';
  return new PetstoreError('storage_unusable', `the database cannot be used: ${mend} (${reasonOf(cause)})`, { cause });
}

/** What was thrown, in words. Where a host has several addresses, what each said stands only inside. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof AggregateError ? thrown.errors.map(messageOf).join(', ') : messageOf(thrown);
}
