/** Owns the storage in a PostgreSQL database: the contract over its tables. Several servers may share one. */
import { setTimeout as wait } from 'node:timers/promises';
import { checkNames } from '../../calling.js';
import type { Log } from '../../log.js';
import { checkDraft, petJson, type PetDraft } from '../../pet.js';
import type { Commit, PetStorage, PetTexts, RecordKind, Records } from '../../storage.js';
import { recordsWhenOpen } from '../opening.js';
import { closedError, keptKindOf, RecordNames } from '../record-set.js';
import { petsOf } from '../texts.js';
import { restBehind, type Unnumbered } from './batches.js';
import { Connections } from './connections.js';
import { unusableDatabase } from './failure.js';
import { poolFor, servingLimits, type PostgresPool, type TimeLimits } from './pool.js';
import { PostgresRecords } from './records.js';
import { checkSchema } from './schema.js';
import { addCounter, petTable, recordTable, selectCounter } from './table.js';

/** What a PostgreSQL storage may be given. */
export interface PostgresStorageOptions {
  /** Hears when the database cannot be used, and when it can again. @defaultValue nobody */
  readonly log?: Log;
  /** The most connections at once, from 1; not for a pool that is given. @defaultValue 10 */
  readonly maxConnections?: number;
}

/** How long closing waits for a database that does not answer before the process may end without it. */
const hungCloseMs = 1_000;

/**
 * Opens the storage in a database with the petstore's tables (see `migratePostgres`).
 * @param database A URL such as `postgres://user@host/name`, or a pool of `pg`, which stays its owner's to end.
 * @throws PetstoreError `storage_unusable` in one line: no `pg`, no database, no tables, no right to read them.
 */
export async function postgresStorage(database: string | PostgresPool, options: PostgresStorageOptions = {}): Promise<PetStorage> {
  return openPostgres(database, options, servingLimits);
}

/** The same with other limits of time, and with all that it has. */
export async function openPostgres(database: string | PostgresPool, options: PostgresStorageOptions, limits: TimeLimits): Promise<PostgresStorage> {
  checkNames('option of postgresStorage', options, ['log', 'maxConnections'] satisfies (keyof PostgresStorageOptions)[]);
  const { log = () => undefined, maxConnections = 10 } = options;
  if (!Number.isInteger(maxConnections) || maxConnections < 1) throw new TypeError('option maxConnections must be an integer from 1');
  const isOurs = typeof database === 'string';
  const pool = isOurs ? await poolFor(database, maxConnections, limits) : database;
  let tell: Log = () => undefined;
  const connections = new Connections(pool, limits, (...said) => tell(...said));
  try {
    await checkSchema(connections);
  } catch (error) {
    await connections.close(isOurs);
    throw unusableDatabase(error);
  }
  // What opening fails by is thrown, not logged.
  tell = log;
  return new PostgresStorage(connections, isOurs, log);
}

function unnumberedPet(draft: PetDraft): Unnumbered {
  return { status: draft.status, rest: restBehind(0n, petJson(0n, draft)) };
}

/** The same for a plugin's kind; @throws TypeError where the id has a say in the rest, for it is known only in the database. */
function unnumberedOf<Draft>(kind: RecordKind<Draft>): (draft: Draft) => Unnumbered {
  const { json } = keptKindOf(kind);
  return (draft) => {
    const [rest, other] = [restBehind(0n, json(0n, draft)), restBehind(1n, json(1n, draft))];
    if (rest !== other) throw new TypeError('the JSON text of a record must hold its id only as its first member');
    return { status: undefined, rest };
  };
}

class PostgresStorage implements PetStorage {
  readonly durable = true;
  readonly texts: Required<PetTexts>;
  readonly insert: PetStorage['insert'];
  readonly insertOnce: Required<PetStorage>['insertOnce'];
  readonly get: PetStorage['get'];
  readonly list: PetStorage['list'];
  readonly #connections: Connections;
  readonly #isOurs: boolean;
  readonly #log: Log;
  readonly #pets: PostgresRecords<PetDraft>;
  /** Each kind of records beside the animals, from the moment that somebody asks for it. */
  readonly #beside: Promise<{ close(): Promise<void> }>[] = [];
  readonly #names = new RecordNames();
  #closing: Promise<void> | undefined;

  constructor(connections: Connections, isOurs: boolean, log: Log) {
    this.#connections = connections;
    this.#isOurs = isOurs;
    this.#log = log;
    const pets = new PostgresRecords(connections, unnumberedPet, petTable, log);
    this.#pets = pets;
    this.texts = {
      insert: (draft) => {
        checkDraft(draft);
        return pets.insert(draft);
      },
      insertOnce: (draft, once) => {
        checkDraft(draft);
        return pets.insertOnce(draft, once);
      },
      get: (id) => pets.get(id),
      list: (query) => pets.list(query),
    };
    ({ insert: this.insert, insertOnce: this.insertOnce, get: this.get, list: this.list } = petsOf(this.texts));
  }

  get waiting(): number {
    return this.#pets.waiting;
  }

  onCommit(watcher: (commit: Commit) => void): void {
    this.#pets.onCommit(watcher);
  }

  records<Draft>(name: string, kind: RecordKind<Draft>): Records<Draft> {
    const opening = this.#openBeside(name, kind);
    this.#beside.push(opening);
    return recordsWhenOpen(opening);
  }

  async #openBeside<Draft>(name: string, kind: RecordKind<Draft>): Promise<PostgresRecords<Draft>> {
    this.#names.take(name);
    if (this.#closing !== undefined) throw closedError();
    const table = recordTable(name);
    try {
      // What has them already may let itself only be read, as the source of a copy.
      const [counter] = await this.#connections.read(selectCounter, [table.counter]);
      if (counter === undefined) await this.#connections.ask(addCounter, [table.counter]);
    } catch (error) {
      throw unusableDatabase(error);
    }
    return new PostgresRecords(this.#connections, unnumberedOf(kind), table, this.#log);
  }

  // What is kept beside them is in the same database, ready together with it.
  ready(): Promise<void> {
    return this.#pets.ready();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // What failed to open has nothing to close.
    const besides = this.#beside.map((opening) =>
      opening.then(
        (records) => records.close(),
        () => undefined,
      ),
    );
    await Promise.all([this.#pets.close(), ...besides]);
    await Promise.race([this.#connections.close(this.#isOurs), wait(hungCloseMs, undefined, { ref: false })]);
  }
}
