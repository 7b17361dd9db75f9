/** Adds many pets to a database for a command: `copy`, `import`, or a start with a seed. */
import { importedStart, jsonAfterId, parsePet, petJson, RecordNames } from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import type { Log } from '../log.js';
import { filterOf, type PetDraft } from '../pet.js';
import type { ImportSource, ImportTarget, StoredText, TextTarget } from '../storage.js';
import { columnsOf } from './batch-writer.js';
import { byteaArray } from './binary.js';
import { commandMs } from './connections.js';
import type { PostgresPool } from './driver.js';
import { throwUnusable, waitForDatabase } from './failures.js';
import { connectToTables, longestStepMs } from './schema.js';
import type { Table } from './statements.js';
import { readLastId } from './table-reader.js';

/**
 * Returns the names under which plugins keep records.
 * @throws PetstoreError `storage_unusable`
 */
export async function postgresRecordNames(
  database: string | PostgresPool,
): Promise<readonly string[]> {
  const connections = await connectToTables(database, commandMs);
  const rows = await connections.read(connections.sql.selectRecordNames).finally(connections.close);
  return rows.map(({ name }) => name ?? '');
}

/**
 * Opens a database to copy pets into it, or the records of the name `records`.
 * @throws PetstoreError as `postgresStorage`
 */
export async function postgresTarget(url: string, records?: string): Promise<TextTarget> {
  if (records !== undefined) new RecordNames().take(records);
  const connections = await connectToTables(url, commandMs);
  const { petTable, recordTable } = connections.sql;
  const table = records === undefined ? petTable : recordTable(records);
  let lastId: bigint | undefined;

  async function adopt(texts: readonly StoredText[]) {
    const [first, newest] = [texts.at(0), texts.at(-1)];
    if (first === undefined || newest === undefined) return;

    lastId ??= await readLastId(connections, table);
    if (first.id <= lastId)
      throw new PetstoreError(
        'storage_unusable',
        `the database gave ids up to ${lastId}; ${first.id} is too low`,
      );

    const rows = await connections.write(table.adoptBatch, adoptValues(table, lastId, texts), {
      mayBeLong: true,
    });
    if (rows.length === 0)
      throw new PetstoreError(
        'storage_in_use',
        'another program adds to the database; stop it and copy again',
      );
    lastId = newest.id;
  }

  const refuse = (error: unknown) =>
    throwUnusable(error, 'correct the cause and run the command again; it goes on where it was');

  return { adopt: (texts) => adopt(texts).catch(refuse), close: connections.close };
}

/** Returns the values of `adoptBatch` for texts of ascending ids above `lastId`. */
function adoptValues(table: Table, lastId: bigint, texts: readonly StoredText[]) {
  const statusOf = ({ json }: StoredText) =>
    table.counter === 'pets' ? (parsePet(json).status ?? '') : '';

  return [
    lastId,
    texts.at(-1)?.id ?? lastId,
    texts.map(({ id }) => id),
    texts.map(statusOf),
    byteaArray(texts.map(({ json }) => json)),
  ];
}

/**
 * Opens a database to import one source (F11). Servers may use the database meanwhile, and other
 * processes may import the same source.
 * @param source The SHA-256 of the source in lowercase hexadecimal digits, or an object that has
 * the digests of its beginnings too.
 * @param log Receives a line every 5 s while the database fails.
 * @throws PetstoreError as `postgresStorage`
 */
export async function postgresImport(
  url: string,
  source: string | ImportSource,
  log: Log,
): Promise<ImportTarget> {
  const whole = typeof source === 'string' ? { digest: source } : source;
  const connections = await connectToTables(url, commandMs);

  const readPlace = async (least = 0) => {
    const [row] = await connections.write(connections.sql.selectPlace, [whole.digest, least]);
    return Number(row?.['place']);
  };

  const readStart = async () => {
    const rows = await connections.read(connections.sql.selectImports);
    return importedStart(
      whole,
      new Map(rows.map(({ source: name, place: at }) => [name ?? '', Number(at)])),
    );
  };

  // Retrying after an unknown outcome is safe: the statement does nothing at a place already
  // passed.
  const retried = (work: () => Promise<number>) => waitForDatabase(work, log).catch(throwUnusable);

  const known = await retried(readStart);
  const start = await retried(() => readPlace(known));
  let place = start;

  return {
    start,
    add: async (drafts, startDigest) => {
      const records = drafts.map((draft) => ({
        indexed: filterOf(draft),
        jsonAfterId: jsonAfterId(draft),
      }));
      const names = startDigest === undefined ? [whole.digest] : [whole.digest, startDigest];
      const { counter } = connections.sql.petTable;
      const columns = columnsOf(records);
      const values = [whole.digest, place, records.length, counter, ...columns, names];

      place = await retried(async () => {
        const [row] = await connections.write(connections.sql.importBatch, values, {
          mayBeLong: true,
        });
        return row === undefined ? readPlace() : Number(row['place']);
      });
      return place;
    },
    close: connections.close,
  };
}

/**
 * Adds pets in one transaction to a database that has never had a pet. Retries while the database
 * fails for a transient reason.
 * @returns false, and adds nothing, if the database has or had pets
 * @throws PetstoreError as `postgresStorage`
 */
export async function seedPostgres(
  url: string,
  drafts: readonly PetDraft[],
  log: Log,
): Promise<boolean> {
  const texts = drafts.map((draft, index) => {
    const id = BigInt(index + 1);
    return { id, json: petJson(id, draft) };
  });
  const connections = await waitForDatabase(() => connectToTables(url, longestStepMs), log);
  const values = adoptValues(connections.sql.petTable, 0n, texts);

  const adopt = () => connections.write(connections.sql.petTable.adoptBatch, values);
  const rows = await waitForDatabase(adopt, log).catch(throwUnusable).finally(connections.close);
  return rows.length > 0;
}
