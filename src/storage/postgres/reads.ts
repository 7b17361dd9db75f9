/**
 * Owns reading records from the database, all that one turn of the event loop asks for together: a statement costs more
 * than what it finds. What was sent before is not shared: it may not see what its asker knows to be there.
 */
import { int64Max, isInt64 } from '../../int64.js';
import type { PetQuery, TextPage } from '../../storage.js';
import type { Connections, Row } from './connections.js';
import { maxPageBytes } from '../record-set.js';
import { textOfHex, type Table } from './table.js';

/** The most ids in one statement. */
const maxIds = 256;

/** Ids that go in one statement, and what it finds: texts by the digits of their id. */
interface Together {
  readonly ids: Set<bigint>;
  readonly found: Promise<ReadonlyMap<string, string>>;
}

/** The way to the records of one kind. */
export class Reads {
  readonly #connections: Connections;
  readonly #table: Table;
  /** What is not sent yet. */
  #together: Together | undefined;
  readonly #pages = new Map<string, Promise<TextPage>>();

  constructor(connections: Connections, table: Table) {
    this.#connections = connections;
    this.#table = table;
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
    const rows = await this.#connections.read(this.#table.selectThese, [[...ids]]);
    return new Map(rows.map((row) => [row['id'] ?? '', jsonOf(row)]));
  }

  async #askPage({ limit, status, after = 0n }: PetQuery): Promise<TextPage> {
    const statement = status === undefined ? this.#table.selectPage : this.#table.selectPageOf[status];
    // A status that there is none of is no text of ours to put into a statement.
    if (statement === undefined || after > int64Max) return { texts: [] };
    const rows = await this.#connections.read(statement, [after < 0n ? 0n : after, limit + 1]);
    const texts: string[] = [];
    for (let bytes = 0; texts.length < Math.min(limit, rows.length) && bytes < maxPageBytes; ) {
      const text = jsonOf(rows[texts.length] ?? {});
      bytes += text.length;
      texts.push(text);
    }
    const last = rows[texts.length - 1]?.['id'];
    return rows.length > texts.length && typeof last === 'string' ? { texts, next: BigInt(last) } : { texts };
  }
}

/** The JSON text of a row, a byte string. */
function jsonOf(row: Row): string {
  return textOfHex(row['json'] ?? '');
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
