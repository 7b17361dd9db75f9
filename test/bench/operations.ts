/** The measured operations, as the bytes of their requests. */
import { requestBytes, type RequestParts } from '../support/fixture.js';

/** The API key of every server. It is as long as a generated key. */
export const benchmarkKey = 'psk_the-key-of-the-benchmark-43-characters-long';

/** Requests that are sent one after the other, repeatedly. */
export interface Operation {
  readonly name: string;
  readonly requests: readonly string[];
  /** The status of each response; `mixed` if some are errors. */
  readonly status: number | 'mixed';
}

const statuses = 'available available sold available pending available sold available available';

/** Returns the draft with a number, from 1. Every tenth draft has no status. */
export function draftOf(number: number): object {
  const status = statuses.split(' ')[number % 10];
  return { name: `Kitten ${number}`, categoryId: 1 + (number % 40), ...(status && { status }) };
}

/** Returns the bytes of a GET, by default with the valid key. */
export function get(path: string, parts: RequestParts = {}): string {
  return requestBytes('GET', path, { authorization: `Bearer ${benchmarkKey}`, ...parts });
}

/** Returns the bytes of a POST with the valid key. */
export function post(body: unknown): string {
  return requestBytes('POST', '/v1/pets', {
    authorization: `Bearer ${benchmarkKey}`,
    headers: ['Content-Type: application/json'],
    body: JSON.stringify(body),
  });
}

const wrongKey = { authorization: 'Bearer psk_another-key-of-the-same-length-as-the-right' };

/** The operations that change nothing, for a catalogue of 1,000 pets. */
export const reading = {
  one: operation('one', 200, get('/v1/pets/500')),
  list20: operation('list 20', 200, get('/v1/pets')),
  list100: operation('list 100', 200, get('/v1/pets?limit=100')),
  byStatus: operation('by status', 200, get('/v1/pets?status=sold')),
  noKey: operation('401', 401, get('/v1/pets/500', { authorization: null })),
  wrongKey: operation('401, wrong key', 401, get('/v1/pets/500', wrongKey)),
  notFound: operation('404', 404, get('/v1/pets/1000001')),
  badBody: operation('400', 400, post({ name: 5, status: 'available' })),
} as const;

const rex = post({ name: 'Rex', categoryId: 5, status: 'available' });

/** Adds a pet to a server with memory storage. */
export const adding = operation('add (memory)', 201, rex);

/** Adds a pet to a server with file storage. */
export const addingToFile = operation('add (file)', 201, rex);

/** Returns an operation of these requests. */
export function operation(
  name: string,
  status: Operation['status'],
  ...requests: readonly string[]
): Operation {
  return { name, requests, status };
}
