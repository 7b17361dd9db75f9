/** Owns a request's query: decoding it, and one value a name. Knows no parameter's rule. */
import { PetstoreError } from '../errors.js';

/** The query of a request; names that nobody asks for are ignored (C4). */
export class Query {
  // Lists, as a handful of names is found sooner than hashed.
  readonly #names: string[] = [];
  readonly #values: string[] = [];

  /** @throws PetstoreError, see `parseQuery`. */
  constructor(text: string) {
    if (text === '') return;
    for (const pair of text.split('&')) {
      const equals = pair.indexOf('=');
      this.#names.push(decoded(equals < 0 ? pair : pair.slice(0, equals)));
      this.#values.push(equals < 0 ? '' : decoded(pair.slice(equals + 1)));
    }
  }

  /**
   * The value of a parameter, undefined where it is absent.
   * @throws PetstoreError `invalid_parameter` where it is given twice (C3).
   */
  get(name: string): string | undefined {
    const at = this.#names.indexOf(name);
    if (at < 0) return undefined;
    if (this.#names.includes(name, at + 1)) throw new PetstoreError('invalid_parameter', `${name} must be given only once.`);
    return this.#values[at];
  }
}

// Made once, as in `paging`.
const badEscape = new PetstoreError('invalid_parameter', 'The query has a percent sign that begins no valid escape of UTF-8.');

/** Most requests have none. */
const emptyQuery = new Query('');

/**
 * @param text What follows the `?`, still encoded; empty where nothing does.
 * @throws PetstoreError `invalid_parameter` for a malformed escape (C12).
 */
export function parseQuery(text: string): Query {
  return text === '' ? emptyQuery : new Query(text);
}

function decoded(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw badEscape;
  }
}
