/** Petstores on plain node:http that are right in an unusual way. */
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Level } from '../../../dist/conformance/index.js';
import type { Ending } from '../../support/at-end.js';
import { startWrong } from '../wrong-server.js';
import { PlainPetstore, sleep, startPlain, type Reply } from './plain-petstore.js';

/** A right petstore. */
export interface RightPetstore {
  /** What the server is or does, after "a petstore that". */
  readonly is: string;
  /** The level that it passes. */
  readonly level: Level;
  readonly start: (t: Ending) => Promise<string>;
  /** The numbers of the rules that do not concern the server. */
  readonly only?: readonly string[];
}

type Parts = Partial<Omit<PlainPetstore, 'pets'>>;

/** Describes a right petstore by the parts that it replaces. */
const right = (
  is: string,
  parts: (petstore: PlainPetstore) => Parts,
  only: readonly string[] = [],
): RightPetstore => ({
  is,
  level: 'http',
  only,
  start: (t) => {
    const petstore = new PlainPetstore();
    return startPlain(t, Object.assign(petstore, parts(petstore)));
  },
});

const reasons: Readonly<Record<number, string>> = { 200: 'OK', 201: 'Created' };

/** Returns the head of a response, with names that `nameOf` writes. */
function headOf(
  version: string,
  { status, headers }: Reply,
  more: Readonly<Record<string, string>>,
  nameOf: (name: string) => string = (name) => name,
): string {
  const all = { Date: new Date().toUTCString(), ...headers, ...more };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    [value].flat().map((each) => `${nameOf(name)}: ${each}`),
  );
  return `HTTP/${version} ${status} ${reasons[status] ?? 'X'}\r\n${lines.join('\r\n')}\r\n\r\n`;
}

/** Writes chunks with leading zeros, extensions and a trailer, and pretty JSON. */
function writeChunked(response: ServerResponse, reply: Reply, method: string): void {
  // Numbers over 2^53 stay as they are.
  const body = reply.body.replaceAll(',"', ',\n  "').replaceAll('":', '" : ');
  const half = Math.floor(body.length / 2);
  const chunks = [body.slice(0, half), body.slice(half)].map((part) => {
    const bytes = Buffer.from(part).toString('latin1');
    return `0000000000000000${bytes.length.toString(16)};a=b\r\n${bytes}\r\n`;
  });
  const head = headOf(
    '1.1',
    reply,
    { 'Transfer-Encoding': 'chunked', Connection: 'close' },
    (name) => name.toLowerCase(),
  );
  const rest = method === 'HEAD' ? '' : `${chunks.join('')}000\r\nx-checksum: 1\r\n\r\n`;
  response.socket?.end(Buffer.from(`${head}${rest}`, 'latin1'));
}

/** Refuses requests over a rate, per `windowMs`. */
const limited =
  (count: number, windowMs: number, headers: Reply['headers']) =>
  (petstore: PlainPetstore): Parts => {
    let used = 0;
    let since = 0;
    return {
      handle: async (request) => {
        if (Date.now() - since > windowMs) {
          since = Date.now();
          used = 0;
        }
        used++;
        return used > count
          ? petstore.error(429, 'too_many_requests', headers)
          : PlainPetstore.prototype.handle.call(petstore, request);
      },
    };
  };

/** Refuses some drafts. */
const refusing =
  (isRefused: (petstore: PlainPetstore, categoryId: bigint, name: string) => boolean) =>
  (petstore: PlainPetstore): Parts => ({
    problemWith: (draft) => {
      const problem = PlainPetstore.prototype.problemWith.call(petstore, draft);
      const { name = '', categoryId = '0' } = draft;
      return problem ?? (isRefused(petstore, BigInt(categoryId), name) ? 'refused' : undefined);
    },
  });

export const rightPetstores: readonly RightPetstore[] = [
  right('is plain', () => ({})),
  right('lists the newest pet first', (petstore) => ({
    filtered: (status) => [...PlainPetstore.prototype.filtered.call(petstore, status)].reverse(),
  })),
  right('counts ids from 10^15 in steps of 17', (petstore) => ({
    nextId: () => String(10n ** 15n + 17n * BigInt(petstore.pets.length)),
  })),
  right('has random ids of 63 bits', () => ({
    nextId: () => String(randomBytes(8).readBigUInt64BE() >> 1n),
  })),
  right('sets a missing status to available', (petstore) => ({
    petOf: (id, draft) => ({
      ...PlainPetstore.prototype.petOf.call(petstore, id, draft),
      status: draft.status ?? 'available',
    }),
  })),
  right('adds members of its own', (petstore) => ({
    json: (pet) =>
      PlainPetstore.prototype.json.call(petstore, pet).replace(/\}$/, ',"createdAt":"2026-01-01"}'),
  })),
  right('responds with HTTP/1.0', () => ({
    write: (response, reply, method) => {
      const head = headOf('1.0', reply, {
        'Content-Length': String(Buffer.byteLength(reply.body)),
      });
      response.socket?.end(method === 'HEAD' ? head : head + reply.body);
    },
  })),
  right('ends a body by closing the connection', () => ({
    write: (response, reply, method) => {
      const head = headOf('1.1', reply, { Connection: 'close' });
      response.socket?.end(method === 'HEAD' ? head : head + reply.body);
    },
  })),
  right('sends lowercase headers and chunked, pretty JSON', () => ({ write: writeChunked })),
  right('names the charset of its JSON', (petstore) => ({
    ok: (status, body, headers = {}) => {
      const type = { 'Content-Type': 'application/json; charset=utf-8' };
      return PlainPetstore.prototype.ok.call(petstore, status, body, { ...type, ...headers });
    },
  })),
  right('sends interim responses before each response', (petstore) => ({
    write: (response, reply, method) => {
      response.socket?.write(
        'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n' +
          'HTTP/1.1 100 Continue\r\n\r\n',
      );
      PlainPetstore.prototype.write.call(petstore, response, reply, method);
    },
  })),
  right('limits the rate, with Retry-After', limited(150, 1_000, { 'Retry-After': '1' })),
  right('limits the rate, without Retry-After', limited(60, 300, {})),
  right(
    'has the categories 1 to 3',
    refusing((_, category) => category < 1n || category > 3n),
    ['C23'],
  ),
  right(
    'has positive categories',
    refusing((_, category) => category < 1n),
  ),
  right(
    'has unique names',
    refusing((petstore, _, name) => petstore.pets.some((pet) => pet.name === name)),
  ),
  right(
    'refuses names of over 100 characters',
    refusing((_, __, name) => name.length > 100),
  ),
  right('redirects /v1 to /api/v2', () => ({
    basePath: '/api/v2',
    handle: async function (this: PlainPetstore, request) {
      const { path } = request;
      if (!path.startsWith('/v1')) return PlainPetstore.prototype.handle.call(this, request);
      const location = `/api/v2${path.slice(3)}`;
      return { status: 308, body: '', headers: { Location: location } };
    },
  })),
  right('sends challenges in several lines', (petstore) => ({
    unauthorized: () =>
      petstore.error(401, 'unauthorized', {
        'WWW-Authenticate': ['Basic realm="a"', 'Digest realm="b", Bearer realm="c"'],
      }),
  })),
  right('sends Allow in several lines', (petstore) => ({
    notAllowed: (allow) => petstore.error(405, 'method_not_allowed', { Allow: allow.split(', ') }),
  })),
  right('knows neither DELETE nor PUT', (petstore) => ({
    notAllowed: () => petstore.error(501, 'not_implemented'),
  })),
  right('serves only its own host', (petstore) => ({
    handle: async (request) =>
      /^127\.0\.0\.1(:\d+)?$/.test(request.headers.host ?? '')
        ? PlainPetstore.prototype.handle.call(petstore, request)
        : petstore.error(421, 'misdirected_request'),
  })),
  right('takes 20 ms for each response', (petstore) => ({
    handle: async (request) => {
      await sleep(20);
      return PlainPetstore.prototype.handle.call(petstore, request);
    },
  })),
  {
    is: 'stands behind a proxy, at the level full',
    level: 'full',
    start: (t) => startWrong(t, {}),
    only: ['C35'],
  },
];
