// Adding a pet so that a lost response never adds it twice: the states of an add, and its text.
import { pendingName } from './kept.js';

/** @import { KeptTexts } from './kept.js' */

/**
 * The texts of the form.
 * @typedef {{ readonly name: string, readonly category: string, readonly status: string }} Fields
 */

/**
 * One pet to add, with the idempotency key of all its requests.
 * @typedef {object} Attempt
 * @property {Fields} fields
 * @property {string} body
 * @property {string} key Empty if the server keeps no idempotency keys.
 * @property {string} author Stands for the API key, to whose name the idempotency key belongs.
 * @property {number} since The time of the first request, in milliseconds since the epoch.
 * @property {boolean} isUnsure True if an earlier request has an unknown outcome.
 */

/**
 * The state of the form. It is unknown whether a pet was added until a petstore has responded.
 * @typedef {{ readonly is: 'editing' }
 *   | { readonly is: 'in flight', readonly attempt: Attempt }
 *   | { readonly is: 'unknown', readonly attempt: Attempt }
 *   | { readonly is: 'done', readonly id: string }} AddState
 */

/** The server keeps idempotency keys for 24 hours; one hour is for clocks that differ. */
const keptForMs = 23 * 3_600_000;

/** 4xx of a petstore after which an earlier or a later request may still have added the pet. */
const openStatuses = [408, 409, 429];

/** One add after the other. The add in flight is kept, so that a reload does not forget it. */
export class Adding {
  /** @type {AddState} */
  #state = { is: 'editing' };
  #kept;
  #now;
  #supportsKeys = true;
  /** The attempt that was shown or begun last. @type {Attempt | undefined} */
  #latest;
  /** True if a reload does not forget the add that was begun last. */
  isKept = true;

  /**
   * @param {KeptTexts} kept
   * @param {() => number} now
   */
  constructor(kept, now = Date.now) {
    this.#kept = kept;
    this.#now = now;
    const attempt = parseAttempt(kept.get(pendingName));
    if (attempt !== undefined) this.#state = { is: 'unknown', attempt };
  }

  get state() {
    return this.#state;
  }

  /**
   * Returns what Add would send: the attempt whose outcome is unknown if the text is the same, else
   * a new one. Until it is sent, the same text has the same idempotency key.
   * @param {Fields} fields
   * @param {string} apiKey
   * @returns {Attempt}
   */
  attemptFor(fields, apiKey) {
    const body = bodyOf(fields);
    const author = digest(apiKey);
    const open = 'attempt' in this.#state ? this.#state.attempt : undefined;
    if (open?.body === body) return open;
    if (this.#latest?.body === body && this.#latest.author === author) return this.#latest;

    const key = this.#supportsKeys ? randomKey() : '';
    this.#latest = { fields, body, key, author, since: this.#now(), isUnsure: false };
    return this.#latest;
  }

  /**
   * Returns why a repeated attempt might add a second pet; undefined if it cannot.
   * @param {Attempt} attempt
   * @param {string} apiKey
   */
  riskOf({ isUnsure, key, author, since }, apiKey) {
    if (!isUnsure) return undefined;
    if (key === '') return 'This server keeps no idempotency keys.';
    if (author !== digest(apiKey)) return 'The first request had another API key.';
    const age = this.#now() - since;
    if (age < 0 || age > keptForMs) return 'The first request was a day ago.';
    return undefined;
  }

  /**
   * Begins a request.
   * @param {Attempt} attempt
   */
  begin(attempt) {
    const since = attempt.isUnsure ? attempt.since : this.#now();
    this.#state = { is: 'in flight', attempt: { ...attempt, since } };
    this.isKept = this.#kept.set(pendingName, JSON.stringify({ ...attempt, since }));
  }

  /**
   * Ends the request with a pet's id, or with the error of a petstore. The status of any other
   * failure is 0.
   * @param {{ readonly id: string } | { readonly status: number, readonly code: string }} result
   */
  settle(result) {
    if (this.#state.is !== 'in flight') throw new Error('there is no add in flight');
    const { attempt } = this.#state;
    if ('id' in result) return this.#end({ is: 'done', id: result.id });

    const { status, code } = result;
    if (code === 'invalid_parameter') this.#supportsKeys = false;
    const isOpen =
      status < 400 ||
      status >= 500 ||
      openStatuses.includes(status) ||
      (status === 401 && attempt.isUnsure);
    if (!isOpen) return this.#end({ is: 'editing' });
    this.#state = { is: 'unknown', attempt: { ...attempt, isUnsure: true } };
  }

  /** Gives up an attempt whose outcome is unknown. */
  forget() {
    if (this.#state.is === 'unknown') this.#end({ is: 'editing' });
  }

  /** @param {AddState} state */
  #end(state) {
    this.#state = state;
    this.#latest = undefined;
    this.#kept.remove(pendingName);
  }
}

/**
 * Returns a kept attempt; undefined if there is none.
 * @param {string | undefined} text
 * @returns {Attempt | undefined}
 */
function parseAttempt(text) {
  if (text === undefined) return undefined;
  try {
    const { fields, body, key, author, since } = JSON.parse(text);
    const { name, category, status } = fields;
    const texts = [name, category, status, body, key, author];
    if (!texts.every((each) => typeof each === 'string') || typeof since !== 'number') return;
    return { fields: { name, category, status }, body, key, author, since, isUnsure: true };
  } catch {
    return undefined;
  }
}

/** `crypto.randomUUID` needs HTTPS or localhost. */
function randomKey() {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}

/**
 * Returns a short digest (FNV-1a), so that the key itself is not kept with the add.
 * @param {string} text
 */
function digest(text) {
  let hash = 0x811c9dc5;
  for (const character of text)
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return hash.toString(16);
}

/**
 * Returns the JSON of a draft. An integer keeps all its digits; another category becomes a string,
 * which the server refuses.
 * @param {Fields} fields
 */
export function bodyOf({ name, category, status }) {
  const categoryId = /^-?(0|[1-9]\d*)$/.test(category) ? category : JSON.stringify(category);
  const last = status === '' ? '' : `,"status":${JSON.stringify(status)}`;
  return `{"name":${JSON.stringify(name)},"categoryId":${categoryId}${last}}`;
}

/**
 * Removes a leading plus sign and leading zeros of an integer. Returns other texts unchanged.
 * @param {string} text
 */
export function plainInteger(text) {
  return text.replace(/^(?:\+|(-))?0*(0|[1-9]\d*)$/, '$1$2');
}
