/** Owns a database as the target of a copy: animals with their ids, in one statement a batch. */
import { setTimeout as wait } from 'node:timers/promises';
import { PetstoreError } from '../../errors.js';
import { parsePet } from '../../pet.js';
import type { StoredText } from '../../storage.js';
import type { PetTarget } from '../copy.js';
import type { Connections } from './connections.js';
import { DatabaseFailure, sqlStateOf } from './failure.js';
import { textOfHex } from './table.js';

/** Raises the counter from the id that was last to the one that is, or does nothing: so it may be sent again. */
const adoptBatch = `WITH taken AS (
  UPDATE petstore_counters SET last_id = $2::int8 WHERE name = 'pets' AND last_id = $1::int8 RETURNING last_id
), stored AS (
  INSERT INTO petstore_pets (id, status, json)
  SELECT pets.id, pets.status, pets.json FROM taken, unnest($3::int8[], $4::text[], $5::bytea[]) AS pets (id, status, json)
)
SELECT last_id FROM taken`;

/** The last id that was given, and its animal's text. */
const selectLast = `SELECT last_id, encode(json, 'hex') AS json
FROM petstore_counters LEFT JOIN petstore_pets ON petstore_pets.id = petstore_counters.last_id WHERE name = 'pets'`;

/** For how long a batch is sent again where the database is away, in milliseconds. */
const againMs = 30_000;

/** What `adopt` needs of a database; it stays open. @throws DatabaseFailure */
export async function openTarget(connections: Connections): Promise<Pick<PetTarget, 'adopt'>> {
  let lastId = (await lastIn(connections)).id;
  return {
    adopt: async (pets) => {
      const [first, newest] = [pets.at(0), pets.at(-1)];
      if (first === undefined || newest === undefined) return;
      if (first.id <= lastId) throw new PetstoreError('storage_unusable', `the database has given ids up to ${lastId}, which the animal of id ${first.id} cannot follow`);
      const [taken] = await untilKnown(() => connections.ask(adoptBatch, [lastId, newest.id, ...columnsOf(pets)]));
      // Nothing was done: either it was before, by a try whose answer was lost, or somebody else adds here.
      const last = taken === undefined ? await untilKnown(() => lastIn(connections)) : newest;
      if (last.id !== newest.id || last.json !== newest.json) throw new PetstoreError('storage_in_use', 'somebody else adds to the database that is copied to');
      lastId = newest.id;
    },
  };
}

async function lastIn(connections: Connections): Promise<StoredText> {
  const [row] = await connections.read(selectLast);
  return { id: BigInt(row?.['last_id'] ?? 0), json: textOfHex(row?.['json'] ?? '') };
}

function columnsOf(pets: readonly StoredText[]): unknown[] {
  return [
    pets.map(({ id }) => id),
    pets.map(({ json }) => parsePet(json).status ?? null),
    pets.map(({ json }) => Buffer.from(json, 'latin1')),
  ];
}

/** What an answer comes to, through a restart of the database too. @throws what it refuses, and what lasts too long */
async function untilKnown<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (const giveUpAt = performance.now() + againMs; ; await wait(100)) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof DatabaseFailure) || isRefusal(error) || performance.now() > giveUpAt) throw error;
    }
  }
}

/** Whether it was the statement that failed, not the way to the database. */
function isRefusal({ outcome, cause }: DatabaseFailure): boolean {
  const state = sqlStateOf(cause) ?? '';
  return outcome === 'no' && /^[0-9A-Z]{5}$/.test(state) && !/^(08|57P|53300|E)/.test(state);
}
