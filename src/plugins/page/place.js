// The place in the list: the query of the page, which is the part of the URL after #.

/** A pet that is looked for; the server gets the other parameters. */
const petName = 'pet';

/** The largest id. */
const lastId = 2n ** 63n - 1n;

/** The page of the list that a URL names. */
export class Place {
  #parameters;

  /** @param {string} hash With or without #. */
  constructor(hash) {
    this.#parameters = new URLSearchParams(hash.replace(/^#/, ''));
  }

  /** The query for the server. */
  get query() {
    return this.#with({ [petName]: undefined });
  }

  get hash() {
    return this.#with({});
  }

  get status() {
    return this.#parameters.get('status') ?? '';
  }

  /** The id that is looked for. */
  get pet() {
    return this.#parameters.get(petName) ?? undefined;
  }

  /** The title of the view. */
  get title() {
    const { status, pet } = this;
    const after = this.#parameters.get('after');
    if (pet !== undefined) return `Pet ${pet}`;
    const what = status === '' ? 'Pets' : `${status[0]?.toUpperCase()}${status.slice(1)} pets`;
    return after === null || after === '0' ? what : `${what} after id ${after}`;
  }

  get isFirst() {
    return /^0*$/.test(this.#parameters.get('after') ?? '');
  }

  /** The hash of the first page, with the same filter and limit. */
  get first() {
    return this.#with({ after: undefined, [petName]: undefined });
  }

  /**
   * The hash of the page before, if ids have no gaps; undefined for a list with a filter, whose
   * ids have gaps.
   */
  get guessedPrevious() {
    const { after, limit = '20' } = Object.fromEntries(this.#parameters);
    if (this.isFirst || this.status !== '' || !/^\d{1,19}$/.test(after ?? '')) return undefined;
    if (!/^\d{1,3}$/.test(limit)) return undefined;
    const start = BigInt(after ?? 0) - BigInt(limit);
    const from = start > 0n ? String(start) : undefined;
    return this.#with({ after: from, [petName]: undefined });
  }

  /**
   * Returns the hash of the first page with another filter.
   * @param {string} status Empty for all pets.
   */
  filtered(status) {
    const wanted = status === '' ? undefined : status;
    return this.#with({ status: wanted, after: undefined, [petName]: undefined });
  }

  /**
   * Returns the hash of the page that begins with a pet; undefined if the text is not an id.
   * @param {string} text
   */
  at(text) {
    if (!/^\d{1,19}$/.test(text)) return undefined;
    const id = BigInt(text);
    if (id < 1n || id > lastId) return undefined;
    return this.#with({ status: undefined, after: String(id - 1n), [petName]: String(id) });
  }

  /** @param {Readonly<Record<string, string | undefined>>} changes */
  #with(changes) {
    const parameters = new URLSearchParams(this.#parameters);
    for (const [name, value] of Object.entries(changes))
      if (value === undefined) parameters.delete(name);
      else parameters.set(name, value);
    return parameters.toString();
  }
}
