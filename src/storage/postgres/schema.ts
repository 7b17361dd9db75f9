/** Owns the tables in the database and the way to them, a statement a step. Knows not what is done with them. */
import { setTimeout as wait } from 'node:timers/promises';
import { PetstoreError } from '../../errors.js';
import { petStatuses } from '../../pet.js';
import type { Connections } from './connections.js';
import { DatabaseFailure, sqlStateOf } from './failure.js';

/**
 * The steps, each of one statement that may be run again. A step that has gone out never changes; new ones follow, and
 * only add, so that a server from before works on. Only what CockroachDB and YugabyteDB have too: an id is taken from a
 * row, not from a sequence, and nothing is unique beside the primary keys.
 */
const steps: readonly string[] = [
  'CREATE TABLE IF NOT EXISTS petstore_schema (name text PRIMARY KEY, version int8 NOT NULL)',
  // The one JSON text in UTF-8. As bytes, so that no setting of server or client converts it.
  'CREATE TABLE IF NOT EXISTS petstore_pets (id int8 PRIMARY KEY, status text, json bytea NOT NULL)',
  // One for each status: never dearer to read than all animals by id, even where the planner takes a status for common.
  ...petStatuses.map((status) => `CREATE INDEX IF NOT EXISTS petstore_pets_${status} ON petstore_pets (id ASC) WHERE status = '${status}'`),
  'CREATE TABLE IF NOT EXISTS petstore_counters (name text PRIMARY KEY, last_id int8 NOT NULL)',
  "INSERT INTO petstore_counters (name, last_id) VALUES ('pets', 0) ON CONFLICT (name) DO NOTHING",
  // What plugins keep beside the animals.
  'CREATE TABLE IF NOT EXISTS petstore_records (kind text, id int8, json bytea NOT NULL, PRIMARY KEY (kind, id))',
  // Each server's last batch and the last id in it.
  'CREATE TABLE IF NOT EXISTS petstore_writers (id uuid PRIMARY KEY, batch int8 NOT NULL, last_id int8 NOT NULL)',
  // Which idempotency key was used for which animal, as digests; one that has expired stays until it is used anew.
  'CREATE TABLE IF NOT EXISTS petstore_idempotency (key text PRIMARY KEY, body text NOT NULL, sent_at int8 NOT NULL, pet_id int8 NOT NULL)',
];

const setVersion =
  "INSERT INTO petstore_schema (name, version) VALUES ('petstore', $1::int8) " +
  'ON CONFLICT (name) DO UPDATE SET version = GREATEST(petstore_schema.version, excluded.version)';

/** The version that this petstore needs. */
export const neededVersion = steps.length;

/** What a step may take: an index over many animals is made in minutes, but a database that fell silent stays so. */
export const longestStepMs = 600_000;

/** No such table, schema of tables, or database object. */
const missingStates: ReadonlySet<string | undefined> = new Set(['42P01', '3F000']);
/** What two that make the same table at once may hear. */
const collisionStates: ReadonlySet<string | undefined> = new Set(['23505', '42P07', '42710', 'XX000', '40001', '40P01']);
const maxCollisions = 20;

/** The version of the schema in a database, 0 where there is none. @throws DatabaseFailure */
export async function schemaVersion(connections: Connections): Promise<number> {
  try {
    const [row] = await connections.read("SELECT version FROM petstore_schema WHERE name = 'petstore'");
    return Number(row?.['version'] ?? 0);
  } catch (error) {
    if (isState(error, missingStates)) return 0;
    throw error;
  }
}

/** Refuses a database without the schema. @throws PetstoreError `storage_unusable`; DatabaseFailure */
export async function checkSchema(connections: Connections): Promise<void> {
  const version = await schemaVersion(connections);
  refuseNewer(version);
  if (version === neededVersion) return;
  const problem = version === 0 ? 'has no petstore in it' : `has a petstore of version ${version}, where ${neededVersion} is needed`;
  throw new PetstoreError('storage_unusable', `the database ${problem}; make its tables with \`petstore migrate --storage URL\``);
}

/** What a later petstore keeps there may need more than we know of. @throws PetstoreError `storage_unusable` */
function refuseNewer(version: number): void {
  if (version <= neededVersion) return;
  throw new PetstoreError(
    'storage_unusable',
    `the database has a petstore of version ${version}, and this one knows none above ${neededVersion}; use the later program, or another database`,
  );
}

/**
 * Takes the steps that are missing; several may do so at once. Answers the version before.
 * @throws PetstoreError `storage_unusable` for the tables of a later program, which it leaves alone; DatabaseFailure
 */
export async function takeSteps(connections: Connections): Promise<number> {
  const before = await schemaVersion(connections);
  refuseNewer(before);
  for (const [index, step] of steps.entries()) {
    if (index < before) continue;
    // The database itself ends it first.
    await takeStep(() => connections.ask(step, [], { queryMs: longestStepMs + 500 }));
    await takeStep(() => connections.ask(setVersion, [index + 1]));
  }
  return before;
}

async function takeStep(take: () => Promise<unknown>): Promise<void> {
  for (let collisions = 0; ; collisions++) {
    try {
      await take();
      return;
    } catch (error) {
      if (collisions === maxCollisions || !isState(error, collisionStates)) throw error;
      await wait(10 * collisions);
    }
  }
}

function isState(error: unknown, states: ReadonlySet<string | undefined>): boolean {
  return error instanceof DatabaseFailure && states.has(sqlStateOf(error.cause));
}
