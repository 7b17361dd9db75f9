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
 * The state of the latest add. Its outcome is unknown until a petstore has responded.
 * @typedef {{ readonly is: 'editing' | 'unknown' }
 *   | { readonly is: 'in flight', readonly attempt: Attempt }
 *   | { readonly is: 'done', readonly id: string }} AddState
 */

/** The server keeps idempotency keys for 24 hours; one hour is for clocks that differ. */
const keptForMs = 23 * 3_600_000;

/** 4xx of a petstore after which an earlier or a later request may still have added the pet. */
const openStatuses = [408, 409, 429];

/** The most adds whose outcome is unknown; after that, the oldest is forgotten. */
const mostPending = 20;

/** Adds one pet after the other. Adds without an outcome are kept, so that no reload loses them. */
export class Adding {
  /** @type {AddState} */
  #state = { is: 'editing' };
  /** The attempts whose outcome is unknown, that in flight included. @type {readonly Attempt[]} */
  #pending;
  /** The attempt that was shown last and was not sent. @type {Attempt | undefined} */
  #latest;
  #kept;
  #now;
  #supportsKeys = true;
  /** True if a reload does not lose the pending adds. */
  isKept = true;

  /**
   * @param {KeptTexts} kept
   * @param {() => number} now
   */
  constructor(kept, now = Date.now) {
    this.#kept = kept;
    this.#now = now;
    this.#pending = parseAttempts(kept.get(pendingName));
  }

  get state() {
    return this.#state;
  }

  get pending() {
    return this.#pending;
  }

  /**
   * Returns what Add would send: the pending attempt with the same text, else a new one. Until it is
   * sent, the same text has the same idempotency key.
   * @param {Fields} fields
   * @param {string} apiKey
   * @returns {Attempt}
   */
  attemptFor(fields, apiKey) {
    const body = bodyOf(fields);
    const author = digest(apiKey);
    const known = this.#pending.find((attempt) => attempt.body === body);
    if (known !== undefined) return known;
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
    const sent = attempt.isUnsure ? attempt : { ...attempt, since: this.#now() };
    this.#state = { is: 'in flight', attempt: sent };
    this.#latest = undefined;
    this.#keep([...this.#without(sent), { ...sent, isUnsure: true }].slice(-mostPending));
  }

  /**
   * Ends the request with a pet's id, or with the error of a petstore. The status of any other
   * failure is 0.
   * @param {{ readonly id: string } | { readonly status: number, readonly code: string }} result
   */
  settle(result) {
    if (this.#state.is !== 'in flight') throw new Error('there is no add in flight');
    const { attempt } = this.#state;
    if ('id' in result) {
      this.#state = { is: 'done', id: result.id };
      return this.forget(attempt);
    }

    const { status, code } = result;
    if (code === 'invalid_parameter') this.#supportsKeys = false;
    const isOpen =
      status < 400 ||
      status >= 500 ||
      openStatuses.includes(status) ||
      (status === 401 && attempt.isUnsure);
    this.#state = { is: isOpen ? 'unknown' : 'editing' };
    if (!isOpen) this.forget(attempt);
  }

  /**
   * Forgets a pending attempt.
   * @param {Attempt} attempt
   */
  forget(attempt) {
    this.#keep(this.#without(attempt));
  }

  /** @param {Attempt} attempt */
  #without({ body }) {
    return this.#pending.filter((other) => other.body !== body);
  }

  /** @param {readonly Attempt[]} attempts */
  #keep(attempts) {
    this.#pending = attempts;
    this.isKept = true;
    if (attempts.length === 0) this.#kept.remove(pendingName);
    else this.isKept = this.#kept.set(pendingName, JSON.stringify(attempts));
  }
}

/**
 * Returns the kept attempts.
 * @param {string | undefined} text
 * @returns {readonly Attempt[]}
 */
function parseAttempts(text) {
  if (text === undefined) return [];
  try {
    /** @type {unknown} */
    const list = JSON.parse(text);
    return Array.isArray(list) ? list.map(checkedAttempt) : [];
  } catch {
    return [];
  }
}

/**
 * Returns a kept attempt.
 * @param {Attempt} value As it was kept, which may be anything else.
 * @returns {Attempt}
 * @throws {TypeError} if it is not an attempt
 */
function checkedAttempt({ fields, body, key, author, since }) {
  const { name, category, status } = fields;
  const texts = [name, category, status, body, key, author];
  if (!texts.every((text) => typeof text === 'string') || typeof since !== 'number')
    throw new TypeError('not an attempt');
  return { fields: { name, category, status }, body, key, author, since, isUnsure: true };
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
