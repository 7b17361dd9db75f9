/** Owns the operations that are measured, as bytes. Knows no server and no load generator. */
import { bytesOf, type Words } from '../support/fixture.js';

/** The key that every server accepts, as long as those that are made. */
export const benchmarkKey = 'psk_the-key-of-the-benchmark-43-characters-long';

/** What is sent again and again, its requests in turn. */
export interface Operation {
  readonly name: string;
  readonly requests: readonly string[];
  /** What each of them is answered; `mixed` where some are errors and some are not. */
  readonly status: number | 'mixed';
}

const statuses = 'available available sold available pending available sold available available';

/** The animal of a number from 1 on, before it has an id; every tenth has no status. */
export function draftOf(number: number): object {
  const status = statuses.split(' ')[number % 10];
  return { name: `Animal ${number}`, categoryId: 1 + (number % 40), ...(status && { status }) };
}

/** A GET with the right key, unless the words say otherwise. */
export function get(path: string, words: Words = {}): string {
  return bytesOf('GET', path, { authorization: `Bearer ${benchmarkKey}`, ...words });
}

/** A POST with the right key. */
export function post(body: unknown): string {
  return bytesOf('POST', '/v1/pets', {
    authorization: `Bearer ${benchmarkKey}`,
    headers: ['Content-Type: application/json'],
    body: JSON.stringify(body),
  });
}

const wrongKey = { authorization: 'Bearer psk_another-key-of-the-same-length-as-the-right' };

/** The operations that change nothing, over a catalogue of 1,000 animals. */
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

/** Adds an animal, to servers that keep them in memory. */
export const adding = operation('add (memory)', 201, rex);

/** The same, to servers that keep them in a file. */
export const addingToFile = operation('add (file)', 201, rex);

/** An operation of these requests. */
export function operation(
  name: string,
  status: Operation['status'],
  ...requests: readonly string[]
): Operation {
  return { name, requests, status };
}
