/** Owns refusing mistakes in calling the library that types alone would not stop. Knows no particular option. */

/**
 * Refuses a name that nobody reads, a misspelt one most likely.
 * @throws TypeError that names it and those that are known.
 */
export function checkNames(what: string, given: object, known: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) throw new TypeError(`${what} ${name} is unknown; known are ${known.join(', ')}`);
  }
}
