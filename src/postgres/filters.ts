/** How PostgreSQL finds pets by each field that lists filter by. */
import { filterableFields, petStatuses, type FilterName, type PetFilter } from '../pet.js';

/** Adds a value to a statement, and returns its placeholder. */
export type AddValue = (value: string | bigint) => string;

/** The SQL of one field that lists filter by. */
interface SqlFilter<Value> {
  /**
   * Returns the condition for a value. A value that is spelled out makes another statement, which
   * each connection prepares: spell out few values, and add all others by `addValue`.
   */
  condition(value: Value, addValue: AddValue): string;
  /** The statements that make the indexes, as {@link migrations} of tables.ts must be. */
  readonly migrations: readonly string[];
}

const filters: { readonly [Name in FilterName]: SqlFilter<NonNullable<PetFilter[Name]>> } = {
  status: {
    // Spelled out, so that the planner can choose the index of the status.
    condition: (status) => `status = '${status}'`,

    // With an index for each status a page of one never costs more than a page of all, whatever
    // status the planner takes for common.
    migrations: petStatuses.map(
      (status) => `CREATE INDEX IF NOT EXISTS petstore_pets_${status}
ON petstore_pets (id ASC) WHERE status = '${status}'`,
    ),
  },
};

/** The statements that make the indexes of all filters. */
export const filterMigrations = Object.values(filters).flatMap(({ migrations }) => migrations);

/** Returns true if a filter has a value that no pet can have, which must not reach a statement. */
export function isImpossible(filter: PetFilter): boolean {
  const values: Readonly<Record<string, unknown>> = filter;
  return filterableFields.some(
    ({ name, type }) => values[name] !== undefined && !type.is(values[name]),
  );
}

/** Returns the conditions of a filter, each of which ends with AND. */
export function conditionsOf(filter: PetFilter, addValue: AddValue): string {
  const values: Readonly<Record<string, unknown>> = filter;
  const known: Readonly<Record<string, SqlFilter<unknown>>> = filters;
  return Object.entries(known)
    .filter(([name]) => values[name] !== undefined)
    .map(([name, { condition }]) => ` ${condition(values[name], addValue)} AND`)
    .join('');
}
