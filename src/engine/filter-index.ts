/** The filter index: finds the records that match a filter. */
import { filterableFields, type PetFilter } from '../pet.js';

/**
 * The positions of records by the values of their filterable fields. Each combination of values has
 * a list of its own, so that the cost of a page depends neither on its filter nor on the number of
 * records. With two filterable fields, a record is in three lists.
 */
export class FilterIndex {
  /** The indexes of the filters with one more field: for each field, by value. */
  readonly #fields: readonly {
    readonly name: string;
    readonly byValue: Map<unknown, FilterIndex>;
  }[];
  /** The positions of the matching records, ascending. Unused for the empty filter. */
  readonly #positions: number[] = [];

  constructor(names: readonly string[] = filterableFields.map(({ name }) => name)) {
    this.#fields = names.map((name) => ({ name, byValue: new Map() }));
  }

  /** Adds a record. Positions must ascend. */
  add(position: number, indexed: PetFilter): void {
    const values: Readonly<Record<string, unknown>> = indexed;
    const fields = this.#fields;
    // A loop by index, because a start adds every pet of a file: an iterator would make the start
    // 8 % slower.
    for (let at = 0; at < fields.length; at++) {
      const field = fields[at];
      const value = field && values[field.name];
      if (field === undefined || value === undefined) continue;

      let narrower = field.byValue.get(value);
      if (narrower === undefined) {
        narrower = this.#narrowedBy(field.name);
        field.byValue.set(value, narrower);
      }
      narrower.#positions.push(position);
      if (at + 1 < fields.length) narrower.add(position, indexed);
    }
  }

  /** Returns the positions of the records that match a filter; undefined for the empty filter. */
  find(filter: PetFilter): readonly number[] | undefined {
    const values: Readonly<Record<string, unknown>> = filter;
    for (const { name, byValue } of this.#fields) {
      const value = values[name];
      if (value === undefined) continue;

      const narrower = byValue.get(value);
      return narrower ? (narrower.find(filter) ?? narrower.#positions) : [];
    }
    return undefined;
  }

  /** Returns an empty index for a filter with one more field. */
  #narrowedBy(name: string): FilterIndex {
    const names = this.#fields.map((field) => field.name);
    return new FilterIndex(names.slice(names.indexOf(name) + 1));
  }
}
