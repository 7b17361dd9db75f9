/** Owns a database as the target of a copy: texts with their ids, in one statement a batch. */
import { setTimeout as wait } from 'node:timers/promises';
import { PetstoreError } from '../../errors.js';
import { parsePet, type PetStatus } from '../../pet.js';
import type { StoredText } from '../../storage.js';
import type { TextTarget } from '../copy.js';
import type { Connections } from './connections.js';
import { DatabaseFailure, sqlStateOf } from './failure.js';
import { petTable, textOfHex, type Table } from './table.js';

/** For how long a batch is sent again where the database is away, in milliseconds. */
const againMs = 30_000;

/** What `adopt` needs of a database, for one kind of records; it stays open. @throws DatabaseFailure */
export async function openTarget(connections: Connections, table: Table): Promise<Pick<TextTarget, 'adopt'>> {
  let lastId = (await lastIn(connections, table)).id;
  return {
    adopt: async (texts) => {
      const [first, newest] = [texts.at(0), texts.at(-1)];
      if (first === undefined || newest === undefined) return;
      if (first.id <= lastId) throw new PetstoreError('storage_unusable', `the database has given ids up to ${lastId}, which ${first.id} cannot follow`);
      const columns = [texts.map(({ id }) => id), texts.map(({ json }) => statusOf(json, table)), texts.map(({ json }) => Buffer.from(json, 'latin1'))];
      const [taken] = await untilKnown(() => connections.ask(table.adoptBatch, [lastId, newest.id, ...columns]));
      // Nothing was done: either it was before, by a try whose answer was lost, or somebody else adds here.
      const last = taken === undefined ? await untilKnown(() => lastIn(connections, table)) : newest;
      if (last.id !== newest.id || last.json !== newest.json) throw new PetstoreError('storage_in_use', 'somebody else adds to the database that is copied to');
      lastId = newest.id;
    },
  };
}

async function lastIn(connections: Connections, { selectLast }: Table): Promise<StoredText> {
  const [row] = await connections.read(selectLast);
  return { id: BigInt(row?.['last_id'] ?? 0), json: textOfHex(row?.['json'] ?? '') };
}

function statusOf(json: string, table: Table): PetStatus | null {
  return table === petTable ? (parsePet(json).status ?? null) : null;
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
