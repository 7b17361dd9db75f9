// Requests to the petstore, and what may come back instead of a petstore's response.
import { parseExactly } from './exact-json.js';

/** A pet, with each number as its digits. @typedef {Readonly<Record<string, string>>} PetTexts */

/**
 * A response of a petstore: its body as it came and parsed, and the query of the next page.
 * @typedef {{ readonly text: string, readonly body: unknown, readonly next: string | undefined }} Found
 */

/** A request without the response that was asked for. */
export class RequestError extends Error {
  /**
   * @param {string} message
   * @param {{ status?: number, code?: string, waitSeconds?: number | undefined }} [facts] Facts of
   *   a petstore's error.
   */
  constructor(message, { status = 0, code = '', waitSeconds } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    /** The seconds of Retry-After, if any. */
    this.waitSeconds = waitSeconds;
  }
}

/**
 * Sends a request with an API key.
 * @param {string} key
 * @param {string} address
 * @param {{ method?: string, body?: string, headers?: Record<string, string>, signal?: AbortSignal }} [options]
 * @returns {Promise<Found>}
 * @throws {RequestError}
 */
export async function send(key, address, { headers = {}, ...options } = {}) {
  const all = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    ...headers,
  };
  /** @type {Response} */
  let response;
  let text;
  try {
    // A petstore's API never redirects, and a redirected POST would become a GET.
    response = await fetch(address, { ...options, headers: all, redirect: 'manual' });
    text = await response.text();
  } catch {
    throw new RequestError('The server cannot be reached; try again.');
  }

  const { ok, status } = response;
  const body = bodyOf(text, ok);
  if (body === undefined) throw foreignError(response);
  if (!ok) {
    const seconds = Number(response.headers.get('Retry-After') ?? NaN);
    const waitSeconds = seconds >= 0 ? Math.min(seconds, 60) : undefined;
    const { message, code } = Object(body);
    const wait = waitSeconds ? ` The server asks to wait ${waitSeconds} s.` : '';
    throw new RequestError(message + wait, { status, code: String(code), waitSeconds });
  }
  return { text, body, next: nextQuery(response.headers.get('Link') ?? '') };
}

/**
 * Returns the query of a link to the next page.
 * @param {string} link
 */
export function nextQuery(link) {
  return /\?([^>]*)>; rel="next"/.exec(link)?.[1];
}

/**
 * Parses a list, a pet or an error; returns undefined if `text` is not a petstore's response.
 * @param {string} text
 * @param {boolean} isOk
 */
export function bodyOf(text, isOk) {
  /** @type {unknown} */
  let body;
  try {
    body = parseExactly(text);
  } catch {
    return undefined;
  }

  const isFound = Array.isArray(body) || typeof Object(body).id === 'string';
  return (isOk ? isFound : typeof Object(body).message === 'string') ? body : undefined;
}

/**
 * Returns the error for a response of another server, such as a proxy or a login page.
 * @param {Response} response
 */
function foreignError({ type, status, headers }) {
  const [mediaType = ''] = (headers.get('Content-Type') ?? '').split(';');
  const parts = [`status ${status}`, ...(mediaType === '' ? [] : [mediaType])];
  const what = type === 'opaqueredirect' ? 'a redirect elsewhere' : parts.join(', ');
  const hint = 'It may come from a proxy or a login page in front of the server.';
  return new RequestError(`The response is not from a petstore: ${what}. ${hint}`);
}
