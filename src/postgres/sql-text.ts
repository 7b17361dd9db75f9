/**
 * Parts of SQL in which every name has its schema. A name without one is looked up along
 * `search_path`, where another role may have defined a function or an operator of that name.
 */

/** Returns a binary expression in parentheses, because `OPERATOR()` has a precedence of its own. */
export function op(left: string, operator: string, right: string): string {
  return `(${left} OPERATOR(pg_catalog.${operator}) ${right})`;
}

/** Returns the values joined by `||`. */
export function concat(...values: readonly string[]): string {
  return values.reduce((left, right) => op(left, '||', right));
}

/** Returns a value cast to a type of PostgreSQL, such as `int8` or `text[]`. */
export function cast(value: string, type: string): string {
  return `CAST(${value} AS pg_catalog.${type})`;
}

/** Returns a quoted identifier, such as the name of a schema. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Returns a text that is NULL if `value` is ''. */
export function nullIfEmpty(value: string): string {
  return `CASE WHEN ${op(value, '<>', "''")} THEN ${value} END`;
}

/**
 * Returns the rows of several arrays side by side. PostgreSQL accepts several arguments of `unnest`
 * only if its schema is omitted.
 */
export function unnest(...arrays: readonly string[]): string {
  return `ROWS FROM (${arrays.map((array) => `pg_catalog.unnest(${array})`).join(', ')})`;
}
