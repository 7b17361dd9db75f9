/**
 * Owns reading animals from the database, all that one turn of the event loop asks for together: a statement costs more
 * than what it finds. What was sent before is not shared: it may not see what its asker knows to be there.
 */
import { int64Max, isInt64 } from '../../int64.js';
import { isPetStatus, type PetStatus } from '../../pet.js';
import type { PetQuery, TextPage } from '../../storage.js';
import type { Connections, Row } from './connections.js';

// As hexadecimal digits, whatever the server's settings would make of bytes.
const columns = "id, encode(json, 'hex') AS json";
const selectThese = `SELECT ${columns} FROM petstore_pets WHERE id = ANY($1::int8[])`;
const selectPage = (condition: string): string => `SELECT ${columns} FROM petstore_pets WHERE ${condition}id > $1::int8 ORDER BY id LIMIT $2::int8`;
const selectAll = selectPage('');
// Spelt out, for an index of one status is of use only where the planner reads that status.
const selectOf = (status: PetStatus): string => selectPage(`status = '${status}' AND `);

/** The most ids in one statement. */
const maxIds = 256;

/** Ids that go in one statement, and what it finds: texts by the digits of their id. */
interface Together {
  readonly ids: Set<bigint>;
  readonly found: Promise<ReadonlyMap<string, string>>;
}

/** The way to the animals that are there. */
export class Reads {
  readonly #connections: Connections;
  /** What is not sent yet. */
  #together: Together | undefined;
  readonly #pages = new Map<string, Promise<TextPage>>();

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  /** The text of an id, or undefined. @throws DatabaseFailure */
  async get(id: bigint): Promise<string | undefined> {
    if (!isInt64(id)) return undefined;
    const together = this.#together ?? this.#newTogether();
    together.ids.add(id);
    if (together.ids.size === maxIds) this.#together = undefined;
    return (await together.found).get(String(id));
  }

  /** The texts of a query by ascending id (C5). @throws DatabaseFailure */
  async page(query: PetQuery): Promise<TextPage> {
    const name = `${query.limit} ${query.after} ${query.status}`;
    let page = this.#pages.get(name);
    if (page === undefined) {
      page = nextTurn().then(() => {
        this.#pages.delete(name);
        return this.#askPage(query);
      });
      this.#pages.set(name, page);
    }
    return page;
  }

  #newTogether(): Together {
    const ids = new Set<bigint>();
    const found = nextTurn().then(() => {
      if (this.#together === together) this.#together = undefined;
      return this.#askThese(ids);
    });
    const together = { ids, found };
    this.#together = together;
    return together;
  }

  async #askThese(ids: ReadonlySet<bigint>): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#connections.read(selectThese, [[...ids]]);
    return new Map(rows.map((row) => [row['id'] ?? '', jsonOf(row)]));
  }

  async #askPage({ limit, status, after = 0n }: PetQuery): Promise<TextPage> {
    // A status that there is none of is no text of ours to put into a statement.
    if ((status !== undefined && !isPetStatus(status)) || after > int64Max) return { texts: [] };
    const statement = status === undefined ? selectAll : selectOf(status);
    const rows = await this.#connections.read(statement, [after < 0n ? 0n : after, limit + 1]);
    const texts = rows.slice(0, limit).map(jsonOf);
    const last = rows[limit - 1]?.['id'];
    return rows.length > limit && typeof last === 'string' ? { texts, next: BigInt(last) } : { texts };
  }
}

/** The JSON text of a row, a byte string. */
function jsonOf(row: Row): string {
  return Buffer.from(row['json'] ?? '', 'hex').toString('latin1');
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
