/** The SQL conditions and indexes of the fields that lists filter by. */
import { filterableFields, petStatuses, type FilterName, type PetFilter } from '../pet.js';
import { op } from './sql-text.js';

/** Adds a value to a statement, and returns its placeholder. */
export type AddValue = (value: string | bigint) => string;

/** The SQL of one field that lists filter by. */
interface SqlFilter<Value> {
  /**
   * Returns the condition for a value. A literal value makes a statement of its own, which each
   * connection prepares: use literals for few values, and `addValue` for all others.
   */
  condition(value: Value, addValue: AddValue): string;
  /**
   * Returns the statements that create the indexes of the table `pets`. The rules of `migrations`
   * apply to them.
   */
  migrations(pets: string): readonly string[];
}

const filters: { readonly [Name in FilterName]: SqlFilter<NonNullable<PetFilter[Name]>> } = {
  status: {
    // A literal, so that the planner can choose the index of the status.
    condition: (status) => op('status', '=', `'${status}'`),

    // One index for each status, so that a filtered page costs no more than a page of all pets,
    // however common the planner believes the status is.
    migrations: (pets) =>
      petStatuses.map(
        (status) => `CREATE INDEX IF NOT EXISTS petstore_pets_${status}
ON ${pets} (id ASC) WHERE ${op('status', '=', `'${status}'`)}`,
      ),
  },
};

/** Returns the statements that create the indexes of all filters of the table `pets`. */
export function filterMigrations(pets: string): readonly string[] {
  return Object.values(filters).flatMap(({ migrations }) => migrations(pets));
}

/** True if a filter has a value that no pet can have. Such a value must not reach a statement. */
export function isImpossible(filter: PetFilter): boolean {
  const values: Readonly<Record<string, unknown>> = filter;
  return filterableFields.some(
    ({ name, type }) => values[name] !== undefined && !type.is(values[name]),
  );
}

/** Returns the conditions of a filter, each followed by AND. */
export function conditionsOf(filter: PetFilter, addValue: AddValue): string {
  const values: Readonly<Record<string, unknown>> = filter;
  const known: Readonly<Record<string, SqlFilter<unknown>>> = filters;
  return Object.entries(known)
    .filter(([name]) => values[name] !== undefined)
    .map(([name, { condition }]) => ` ${condition(values[name], addValue)} AND`)
    .join('');
}
