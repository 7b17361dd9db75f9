/** Proxies before our petstore, each wrong in exactly one way at the level `full`. */
import { key } from '../../support/fixture.js';
import type { Fault } from '../wrong-server.js';

/** The number of a rule, what the server does that breaks the rule, and how. */
export type WrongProxy = readonly [number: string, does: string, fault: Fault];

/** Returns a fault that replaces text in requests. */
export const inRequests = (from: string | RegExp, to: string): Fault => ({
  request: (bytes) => bytes.replaceAll(from, to),
});
/** Returns a fault that replaces text in responses. */
const inResponses = (from: string | RegExp, to: string): Fault => ({
  response: (bytes) => bytes.replaceAll(from, to),
});
/** Returns a fault that replaces a status of responses by 400, also in their bodies. */
const with400In = (status: 408 | 413 | 431 | 501): Fault => ({
  response: (bytes) =>
    bytes.startsWith(`HTTP/1.1 ${status} `)
      ? bytes
          .replace(/^(HTTP\/1\.1) .*/, '$1 400 Bad Request')
          .replace(`"status":${status}`, '"status":400')
      : bytes,
});

/** A response to a malformed request that does not end the connection. */
const badRequest =
  'HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 57\r\n\r\n' +
  '{"code":"bad_request","message":"malformed","status":400}';

/** Returns a fault that removes a header from responses. */
export const withoutHeader = (name: string): Fault =>
  inResponses(new RegExp(`^${name}: .*\r\n`, 'gim'), '');

export const wrongProxies: readonly WrongProxy[] = [
  [
    'C23',
    'rounds an int64',
    {
      response: (bytes) =>
        bytes.replace(/(?<=categoryId":)-?\d{16,}/g, (text) => `${Number(text)}`),
    },
  ],
  [
    'C7',
    'does not know the status sold',
    inRequests(/GET \/v1\/pets\?(.*)status=sold/g, 'GET /v1/pets?$1status=pending'),
  ],
  [
    'C1',
    'reduces a limit that is too large to 100',
    inRequests(/limit=(101|1000) /g, 'limit=100 '),
  ],
  [
    'C5',
    'lists the last pet first',
    {
      response: (bytes) =>
        bytes.replace(/\[\{"id".*\}\]$/s, (list) => {
          const pets = list.slice(1, -1).split(/(?<=\}),(?=\{"id")/);
          return `[${pets.reverse().join(',')}]`;
        }),
    },
  ],
  ['C6', 'sends no Link', inResponses(/^Link: <[^>]*limit=2.*\r\n/gm, '')],
  ['C6', 'leaves the filter out of Link', inResponses(/^(Link: <[^>]*)status=\w+&/gm, '$1')],
  [
    'C6',
    'sends a Link with a page that has no pets',
    {
      response: (bytes) =>
        bytes.replace(
          /^(HTTP\/1\.1 200 OK\r\n)(?=.*\r\n\r\n\[\]$)/s,
          '$1Link: </v1/pets?limit=20&after=9223372036854775806>; rel="next"\r\n',
        ),
    },
  ],
  ['C12', 'does not decode a path', inRequests('/%70ets', '/petz')],
  ['C18', 'responds with 400 to an unknown method', with400In(501)],
  [
    'C21',
    'returns unknown members',
    inResponses(/^(HTTP\/1\.1 201 .*)(?="categoryId":)/gs, '$1"extra":1,'),
  ],
  [
    'C21',
    'takes the id of a new pet from the request',
    {
      response: (bytes, request) => {
        const [, id] = /\r\n\r\n\{"id":(\d+)/.exec(request) ?? [];
        return id === undefined ? bytes : bytes.replace(/(?<=\{"id":)\d+/, id);
      },
    },
  ],
  ['C25', 'trims a name', inRequests('"name":" a "', '"name":"a"')],
  [
    'C28',
    'accepts text/plain as JSON',
    inRequests(/Content-Type: text\/plain\r\n(?!.*Expect)(?<!Expect.*)/gs, ''),
  ],
  ['C30', 'sends no Location', withoutHeader('Location')],
  [
    'C36',
    'sends no WWW-Authenticate',
    inResponses(/^WWW-Authenticate: (?!.*invalid_token).*\r\n/gm, ''),
  ],
  [
    'C39',
    'accepts a key in the query',
    inRequests(
      `/v1/pets?access_token=${key} HTTP/1.1\r\n`,
      `/v1/pets HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n`,
    ),
  ],
  [
    'C50',
    'uses an unknown code for an invalid body',
    inResponses('"invalid_body"', '"validation"'),
  ],
  ['C64', 'sends no Date', withoutHeader('Date')],
  [
    'C30',
    'responds with 200 to an added pet',
    inResponses('HTTP/1.1 201 Created', 'HTTP/1.1 200 OK'),
  ],
  ['S2', 'lists 10 pets by default', inRequests('GET /v1/pets HTTP', 'GET /v1/pets?limit=10 HTTP')],
  ['P3', 'leaves the status out of errors', inResponses(/,"status":\d+\}/g, '}')],
  ['C3', 'accepts the first of two parameters', inRequests(/limit=5&limit=\d/g, 'limit=5')],
  ['C6', 'does not know after', inRequests(/&after=[^& ]*|(?<=\?)after=[^& ]*&?/g, '')],
  ['C10', 'accepts 007 as 7', inRequests('/v1/pets/007 ', '/v1/pets?limit=1 ')],
  [
    'C15',
    'sends a 405 without Allow',
    inResponses(/^(HTTP\/1\.1 405 .*\r\n)Allow: [^\r]*\r\n/gs, '$1'),
  ],
  [
    'C19',
    'sets a missing status to available',
    inResponses(/("categoryId":-?\d+)\}/g, '$1,"status":"available"}'),
  ],
  ['C22', 'refuses 1.0 as an integer', inRequests('"categoryId":1.0', '"categoryId":1.5')],
  [
    'C26',
    'responds with 500 to a body that is not JSON',
    {
      response: (bytes) =>
        bytes.includes('"invalid_json"') ? bytes.replaceAll('400', '500') : bytes,
    },
  ],
  [
    'C26',
    'says of a body that is not JSON that its members are wrong',
    inResponses('"invalid_json"', '"invalid_body"'),
  ],
  ['C33', 'sends no Sunset', withoutHeader('Sunset')],
  [
    'C37',
    'accepts any key',
    inRequests(/^Authorization: Bearer no-key-[0-9a-f-]+/gim, `Authorization: Bearer ${key}`),
  ],
  ['C38', 'does not know BEARER', inRequests(/^Authorization: BEARER /gm, 'Authorization: Basic ')],
  [
    'C46',
    'responds with 406 to another Accept',
    {
      response: (bytes, request) =>
        request.includes('Accept: text/html') ? bytes.replace('200 OK', '406 No') : bytes,
    },
  ],
  ['C56', 'sends links without the base path', inResponses(/^(Location: |Link: <)\/v1/gm, '$1')],
  ['C30', 'returns ids as strings', inResponses(/"id":(\d+)/g, '"id":"$1"')],
  [
    'S3',
    'responds with 200 and null to a missing pet',
    {
      response: (bytes, request) =>
        /^GET \/v1\/pets\/(9223372036854775807|4611686018427400249) /.test(request) &&
        bytes.includes('"not_found"')
          ? bytes.replace('404 Not Found', '200 OK').replace(/\{.*\}$/, 'null')
          : bytes,
    },
  ],
  [
    'P3',
    'sends errors as text/html',
    inResponses(/(?<=^HTTP\/1\.1 4.*Content-Type: )application\/json/gs, 'text/html'),
  ],
  ['C4', 'refuses an unknown parameter', inRequests('utm_source=x', 'limit=x')],
  [
    'C8',
    'responds with 404 to an empty list',
    {
      response: (bytes, request) =>
        request.includes('after=9223372036854775807')
          ? bytes.replace(/200 OK(.*)\[\]$/s, '404 Not Found$1{}')
          : bytes,
    },
  ],
  ['C11', 'serves a path with a trailing slash', inRequests('/v1/pets/ HTTP', '/v1/pets HTTP')],
  [
    'C16',
    'sends a body in a response to HEAD',
    { response: (bytes, request) => (request.startsWith('HEAD') ? `${bytes}[]` : bytes) },
  ],
  [
    'C20',
    'accepts a number as a name',
    inRequests('{"name":5,"categoryId":1}', '{"name":"5","categoryId":1}'),
  ],
  ['C24', 'rounds 1.5', inRequests('"categoryId":1.5', '"categoryId":2')],
  [
    'C27',
    'needs a Content-Type',
    {
      request: (bytes) =>
        bytes.includes('"name":"verify') && !/content-(type|encoding)|expect/i.test(bytes)
          ? bytes.replace('Host:', 'Content-Type: none\r\nHost:')
          : bytes,
    },
  ],
  [
    'C14',
    'checks the key before the path',
    {
      response: (bytes, request) =>
        /^Authorization:/im.test(request) ? bytes : bytes.replace('404 Not Found', '401 No'),
    },
  ],
  [
    'C36',
    'needs no key',
    {
      request: (bytes) =>
        /^authorization:/im.test(bytes) ||
        !/^(GET|POST) \/v1\/pets.* HTTP\/1.1\r\nHost: 127/.test(bytes)
          ? bytes
          : bytes.replace('\r\n', `\r\nAuthorization: Bearer ${key}\r\n`),
    },
  ],
  ['C42', 'accepts the first of two Hosts', inRequests('Host: a\r\nHost: a\r\n', 'Host: a\r\n')],
  [
    'C42',
    'sends more after its response to a request with two lengths',
    {
      endless: (request) =>
        request.includes('Content-Length: 27\r\nContent-Length: 5\r\n')
          ? { begin: badRequest, repeat: badRequest }
          : undefined,
    },
  ],
  ['C47', 'lets caches keep responses', withoutHeader('Cache-Control')],
  ['C47', 'lets browsers guess a media type', withoutHeader('X-Content-Type-Options')],
  ['C57', 'forgets idempotency keys', inRequests(/^Idempotency-Key: [0-9a-f-]{36}\r\n/gm, '')],
  ['C2', 'accepts 05 as a limit', inRequests('limit=05 ', 'limit=5 ')],
  [
    'C9',
    'refuses a GET with a body',
    {
      response: (bytes, request) =>
        /^GET .*\r\n(?:.+\r\n)*Content-Length: [1-9]/.test(request)
          ? bytes.replace('200 OK', '400 Bad Request')
          : bytes,
    },
  ],
  ['C13', 'does not know the scheme https', inRequests('GET https:', 'GET /https:')],
  [
    'C17',
    'needs a key for OPTIONS',
    {
      request: (bytes) =>
        bytes.startsWith('OPTIONS') && !/^authorization:/im.test(bytes)
          ? bytes.replace('OPTIONS', 'GET')
          : bytes,
    },
  ],
  ['C29', 'responds with 400 to a body over the limit', with400In(413)],
  ['C32', 'has no negative categories', inRequests(/"categoryId":-5\b/g, '"categoryId":"-5"')],
  [
    'C35',
    'sends Sunset after the sunset',
    {
      clock: () => Date.UTC(2031, 0),
      response: (bytes, request) =>
        /^[A-Z]+ \/v1\/pets\/\d/.test(request)
          ? bytes.replace(/(?<= 404 .*\r\n)/, 'Sunset: Fri, 06 Dec 2030 00:00:00 GMT\r\n')
          : bytes,
    },
  ],
  [
    'C40',
    'repeats a wrong key in a header',
    {
      response: (bytes, request) =>
        bytes.replace(
          /^(HTTP\/1\.1 401 .*\r\n)/,
          `$1X-Key: ${/^Authorization: Bearer (.*)\r$/im.exec(request)?.[1]}\r\n`,
        ),
    },
  ],
  [
    'C41',
    'needs a key for /readyz',
    {
      request: (bytes) =>
        bytes.includes(`Bearer ${key}`) ? bytes : bytes.replace(/^GET \/readyz/, 'GET /v1/pets'),
    },
  ],
  ['C43', 'responds with 400 to too many headers', with400In(431)],
  ['C45', 'refuses every Expect', inRequests('Expect: 100-continue', 'Expect: nothing')],
  [
    'C51',
    'loses the response to a body that it does not read',
    {
      response: (bytes, request) =>
        /Content-Length: 10000000\r\n|x{1000}$/.test(request) && bytes.startsWith('HTTP/1.1 401')
          ? ''
          : bytes,
    },
  ],
  [
    'C52',
    'drops requests in the same packet as a body',
    { request: (bytes) => bytes.split(/(?<=\})(?=GET \/)/)[0] ?? '' },
  ],
  [
    'C53',
    'reads a body up to the end of the connection',
    inRequests('Content-Length: 1000\r\n', 'Content-Length: 0\r\n'),
  ],
];

/** Proxies that break a rule which is checked only if the option `slow` is true. */
export const slowProxies: readonly WrongProxy[] = [
  ['C44', 'responds with 400 to a late request', with400In(408)],
  [
    'C44',
    'responds with 408 to a request that is not late',
    {
      request: (bytes) => (bytes === 'GE' ? 'garbage\r\n\r\n' : bytes),
      response: (bytes, request) =>
        request === 'GE'
          ? bytes
              .replace('400 Bad Request', '408 Request Timeout')
              .replace('"bad_request"', '"request_timeout"')
              .replace('"status":400', '"status":408')
          : bytes,
    },
  ],
];
