/** Owns a request's query: decoding it, and one value a name. Knows no parameter's rule. */
import { PetstoreError } from '../errors.js';

/** The query of a request; names that nobody asks for are ignored (C4). */
export class Query {
  readonly #values = new Map<string, string>();
  readonly #repeated = new Set<string>();

  /** @throws PetstoreError, see `parseQuery`. */
  constructor(text: string) {
    if (text === '') return;
    for (const pair of text.split('&')) {
      const equals = pair.indexOf('=');
      const name = decoded(equals < 0 ? pair : pair.slice(0, equals));
      if (this.#values.has(name)) this.#repeated.add(name);
      this.#values.set(name, equals < 0 ? '' : decoded(pair.slice(equals + 1)));
    }
  }

  /**
   * The value of a parameter, undefined where it is absent.
   * @throws PetstoreError `invalid_parameter` where it is given twice (C3).
   */
  get(name: string): string | undefined {
    if (this.#repeated.has(name)) throw new PetstoreError('invalid_parameter', `${name} must be given only once.`);
    return this.#values.get(name);
  }
}

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
    throw new PetstoreError('invalid_parameter', 'The query has a percent sign that begins no valid escape of UTF-8.');
  }
}
