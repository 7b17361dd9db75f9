/** Owns the operations that are measured, as requests. Knows no server and no load generator. */

/** The key that every server accepts. */
export const apiKey = 'psk_the-key-of-the-benchmark-43-characters-long';

/** One request of the API. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** The bearer key; absent for none. */
  readonly key?: string;
  /** JSON. */
  readonly body?: string;
  /** Whether the server shall close the connection behind its answer. */
  readonly closes?: true;
}

/** What is sent again and again, its requests in turn. */
export interface Operation {
  readonly name: string;
  readonly requests: readonly ApiRequest[];
  /** What each of them is answered; `mixed` where some are errors and some are not. */
  readonly status: number | 'mixed';
}

/** The animal of a number from 1 on, before it has an id; every tenth has no status. */
export function draftOf(number: number): {
  readonly name: string;
  readonly categoryId: number;
  readonly status?: string;
} {
  const statuses = [
    'available',
    'available',
    'sold',
    'available',
    'pending',
    'available',
    'sold',
    'available',
    'available',
  ];
  const status = statuses[number % 10];
  return {
    name: `Animal ${number}`,
    categoryId: 1 + (number % 40),
    ...(status !== undefined && { status }),
  };
}

/** A GET with the right key. */
export function get(path: string): ApiRequest {
  return { method: 'GET', path, key: apiKey };
}

/** A POST with the right key. */
export function post(body: unknown): ApiRequest {
  return { method: 'POST', path: '/v1/pets', key: apiKey, body: JSON.stringify(body) };
}

/** The operations that change nothing, over a catalogue of 1,000 animals. */
export const reading = {
  one: { name: 'one', requests: [get('/v1/pets/500')], status: 200 },
  list20: { name: 'list 20', requests: [get('/v1/pets')], status: 200 },
  list100: { name: 'list 100', requests: [get('/v1/pets?limit=100')], status: 200 },
  byStatus: { name: 'by status', requests: [get('/v1/pets?status=sold')], status: 200 },
  noKey: { name: '401', requests: [{ method: 'GET', path: '/v1/pets/500' }], status: 401 },
  wrongKey: {
    name: '401, wrong key',
    requests: [
      {
        method: 'GET',
        path: '/v1/pets/500',
        key: 'psk_another-key-of-the-same-length-as-the-right',
      },
    ],
    status: 401,
  },
  notFound: { name: '404', requests: [get('/v1/pets/1000001')], status: 404 },
  badBody: { name: '400', requests: [post({ name: 5, status: 'available' })], status: 400 },
} as const satisfies Record<string, Operation>;

/** Adds an animal, to servers that keep them in memory. */
export const adding: Operation = {
  name: 'add (memory)',
  requests: [post({ name: 'Rex', categoryId: 5, status: 'available' })],
  status: 201,
};

/** The same, to servers that keep them in a file. */
export const addingToFile: Operation = { ...adding, name: 'add (file)' };

/** The bytes of a request as they go over the wire. */
export function wireText({ method, path, key, body, closes }: ApiRequest): string {
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: 127.0.0.1'];
  if (key !== undefined) lines.push(`Authorization: Bearer ${key}`);
  if (closes) lines.push('Connection: close');
  if (body !== undefined)
    lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}
