/**
 * Holds the suite that anyone can run: a server that is wrong in one thing fails by the number of
 * that, and by no other.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { verifyPetstore, type Level } from '../../dist/conformance/index.js';
import { key, startWrong, type Fault } from './wrong-server.js';

/** A fault of a server, and the numbers that it breaks. */
interface WrongServer extends Fault {
  readonly does: string;
  readonly breaks: readonly string[];
}

/** Adds to the head of an answer, changes it, or leaves a line out. */
const withoutHeader = (name: string) => (bytes: string) =>
  bytes.replace(new RegExp(`^${name}: .*\r\n`, 'gim'), '');
const replaced = (from: string | RegExp, to: string) => (bytes: string) =>
  bytes.replaceAll(from, to);

const wrongServers: readonly WrongServer[] = [
  { does: 'nothing wrong', breaks: [] },
  {
    does: 'answers 200 to an animal that is added',
    breaks: ['C30'],
    answer: replaced('HTTP/1.1 201 Created', 'HTTP/1.1 200 OK'),
  },
  {
    does: 'answers ids as texts',
    breaks: ['C30'],
    answer: replaced(/"id":(\d+)/g, '"id":"$1"'),
  },
  {
    does: 'rounds an int64',
    breaks: ['C23'],
    answer: (bytes) => bytes.replace(/(?<=categoryId":)-?\d{16,}/g, (text) => `${Number(text)}`),
  },
  {
    does: 'gives 10 animals where nobody says how many',
    breaks: ['S2'],
    request: replaced('GET /v1/pets HTTP', 'GET /v1/pets?limit=10 HTTP'),
  },
  {
    does: 'does not know the status sold',
    breaks: ['C7'],
    request: replaced(/GET \/v1\/pets\?(.*)status=sold/g, 'GET /v1/pets?$1status=pending'),
  },
  {
    does: 'answers an animal that is not there by 200 and null',
    breaks: ['S3'],
    answer: (bytes, request) =>
      /^GET \/v1\/pets\/(9223372036854775807|4611686018427400249) /.test(request) &&
      bytes.includes('"not_found"')
        ? bytes.replace('404 Not Found', '200 OK').replace(/\{.*\}$/, 'null')
        : bytes,
  },
  {
    does: 'leaves the status out of errors',
    breaks: ['P3'],
    answer: replaced(/,"status":\d+\}/g, '}'),
  },
  {
    does: 'answers errors as a text',
    breaks: ['P3'],
    answer: (bytes) =>
      /^HTTP\/1.1 4/.test(bytes)
        ? bytes.replace('Content-Type: application/json', 'Content-Type: text/html')
        : bytes,
  },
  {
    does: 'takes a limit that is too large for the largest',
    breaks: ['C1'],
    request: replaced(/limit=(101|1000) /g, 'limit=100 '),
  },
  {
    does: 'takes the first of two parameters',
    breaks: ['C3'],
    request: replaced(/limit=5&limit=\d/g, 'limit=5'),
  },
  {
    does: 'refuses a parameter that it does not know',
    breaks: ['C4'],
    request: replaced('utm_source=x', 'limit=x'),
  },
  {
    does: 'lists the last first',
    breaks: ['C5'],
    answer: (bytes) =>
      bytes.replace(/\[\{"id".*\}\]$/s, (list) => {
        const animals = list.slice(1, -1).split(/(?<=\}),(?=\{"id")/);
        return `[${animals.reverse().join(',')}]`;
      }),
  },
  {
    does: 'does not know after',
    breaks: ['C6'],
    request: replaced(/&after=[^& ]*|(?<=\?)after=[^& ]*&?/g, ''),
  },
  {
    does: 'gives no Link',
    breaks: ['C6'],
    answer: replaced(/^Link: <[^>]*limit=2.*\r\n/gm, ''),
  },
  {
    does: 'answers nothing by 404',
    breaks: ['C8'],
    answer: (bytes, request) =>
      request.includes('after=9223372036854775807')
        ? bytes.replace(/200 OK(.*)\[\]$/s, '404 Not Found$1{}')
        : bytes,
  },
  {
    does: 'takes 007 for 7',
    breaks: ['C10'],
    request: replaced('/v1/pets/007 ', '/v1/pets?limit=1 '),
  },
  {
    does: 'serves a path with a slash behind it',
    breaks: ['C11'],
    request: replaced('/v1/pets/ HTTP', '/v1/pets HTTP'),
  },
  {
    does: 'does not decode a path',
    breaks: ['C12'],
    request: replaced('/%70ets', '/petz'),
  },
  {
    does: 'names no methods in a 405',
    breaks: ['C15'],
    answer: (bytes) => (bytes.includes('405 ') ? withoutHeader('Allow')(bytes) : bytes),
  },
  {
    does: 'has a body in an answer to HEAD',
    breaks: ['C16'],
    answer: (bytes, request) => (request.startsWith('HEAD') ? `${bytes}[]` : bytes),
  },
  {
    does: 'answers 400 to a method that it does not know',
    breaks: ['C18'],
    answer: (bytes) =>
      bytes
        .replace('501 Not Implemented', '400 Bad Request')
        .replace('"status":501', '"status":400'),
  },
  {
    does: 'makes an animal available where nobody says so',
    breaks: ['C19'],
    answer: replaced(/("categoryId":-?\d+)\}/g, '$1,"status":"available"}'),
  },
  {
    does: 'takes a number for a name',
    breaks: ['C20'],
    request: replaced('{"name":5,"categoryId":1}', '{"name":"5","categoryId":1}'),
  },
  {
    does: 'echoes what it does not know',
    breaks: ['C21'],
    answer: (bytes) =>
      bytes.includes('201 Created')
        ? bytes.replace('"categoryId":', '"extra":1,"categoryId":')
        : bytes,
  },
  {
    does: 'refuses 1.0 for an integer',
    breaks: ['C22'],
    request: replaced('"categoryId":1.0', '"categoryId":1.5'),
  },
  {
    does: 'rounds 1.5',
    breaks: ['C24'],
    request: replaced('"categoryId":1.5', '"categoryId":2'),
  },
  {
    does: 'trims a name',
    breaks: ['C25'],
    request: replaced('"name":" a "', '"name":"a"'),
  },
  {
    does: 'answers 500 to what is no JSON',
    breaks: ['C26'],
    answer: (bytes) =>
      bytes.includes('"invalid_json"')
        ? bytes.replace('400 Bad Request', '500 Oops').replace('"status":400', '"status":500')
        : bytes,
  },
  {
    does: 'needs a Content-Type',
    breaks: ['C27'],
    request: (bytes) =>
      bytes.includes('"name":"verify') && !/content-(type|encoding)|expect/i.test(bytes)
        ? bytes.replace('Host:', 'Content-Type: none\r\nHost:')
        : bytes,
  },
  {
    does: 'takes a text for JSON',
    breaks: ['C28'],
    request: (bytes) =>
      bytes.includes('Expect') ? bytes : bytes.replace('Content-Type: text/plain\r\n', ''),
  },
  { does: 'says no Location', breaks: ['C30'], answer: withoutHeader('Location') },
  { does: 'says nothing of the sunset', breaks: ['C33'], answer: withoutHeader('Sunset') },
  {
    does: 'asks for a key before it looks for a path',
    breaks: ['C14'],
    answer: (bytes, request) =>
      /^Authorization:/im.test(request) ? bytes : bytes.replace('404 Not Found', '401 No'),
  },
  {
    does: 'needs no key',
    breaks: ['C36'],
    request: (bytes) =>
      /^authorization:/im.test(bytes) ||
      !/^(GET|POST) \/v1\/pets.* HTTP\/1.1\r\nHost: 127/.test(bytes)
        ? bytes
        : bytes.replace('\r\n', `\r\nAuthorization: Bearer ${key}\r\n`),
  },
  {
    does: 'takes any key',
    breaks: ['C37'],
    request: replaced(
      /^Authorization: Bearer no-key-[0-9a-f-]+/gim,
      `Authorization: Bearer ${key}`,
    ),
  },
  {
    does: 'does not say how to authenticate',
    breaks: ['C36'],
    answer: (bytes) =>
      bytes.includes('invalid_token') ? bytes : withoutHeader('WWW-Authenticate')(bytes),
  },
  {
    does: 'knows Bearer in one case',
    breaks: ['C38'],
    request: replaced(/^Authorization: BEARER /gm, 'Authorization: Basic '),
  },
  {
    does: 'reads the key of a query',
    breaks: ['C39'],
    request: replaced(
      `/v1/pets?access_token=${key} HTTP/1.1\r\n`,
      `/v1/pets HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n`,
    ),
  },
  {
    does: 'takes the first of two Hosts',
    breaks: ['C42'],
    request: replaced('Host: a\r\nHost: a\r\n', 'Host: a\r\n'),
  },
  {
    does: 'guesses what a client accepts',
    breaks: ['C46'],
    answer: (bytes, request) =>
      request.includes('Accept: text/html') ? bytes.replace('200 OK', '406 No') : bytes,
  },
  { does: 'lets caches keep answers', breaks: ['C47'], answer: withoutHeader('Cache-Control') },
  {
    does: 'has a code of its own for a body',
    breaks: ['C50'],
    answer: replaced('"invalid_body"', '"validation"'),
  },
  {
    does: 'gives links from the root',
    breaks: ['C56'],
    answer: replaced(/^(Location: |Link: <)\/v1/gm, '$1'),
  },
  {
    does: 'forgets idempotency keys',
    breaks: ['C57'],
    request: replaced(/^Idempotency-Key: [0-9a-f-]{36}\r\n/gm, ''),
  },
  { does: 'says no Date', breaks: ['C64'], answer: withoutHeader('Date') },
];

/** The numbers that fail, of those that are asked for. */
async function numbersThatFail(url: string, level?: Level): Promise<readonly string[]> {
  const failed: string[] = [];
  for await (const { number, outcome } of verifyPetstore({ url, key, ...(level && { level }) }))
    if (outcome === 'failed') failed.push(number);
  return failed;
}

/** A server with the faults of several. */
const together = (some: readonly WrongServer[]): Fault => ({
  request: (bytes) => some.reduce((before, { request }) => request?.(before) ?? before, bytes),
  answer: (bytes, sent) =>
    some.reduce((before, { answer }) => answer?.(before, sent) ?? before, bytes),
});

// A server is asked two thousand things, so five faults are tried at once; where that shows other
// numbers than each of them breaks, as one hides another or the suite is wrong, each is tried alone.
for (let from = 0; from < wrongServers.length; from += 5) {
  const some = wrongServers.slice(from, from + 5);
  const what = some.map(({ does, breaks }) => `${does} (${breaks.join(', ') || 'right'})`);

  test(`a server fails by the number of what it does, and by no other: it ${what.join('; ')}`, async (t) => {
    const failed = await numbersThatFail(await startWrong(t, together(some)));
    const broken = new Set(some.flatMap(({ breaks }) => breaks));
    if (isDeepStrictEqual(new Set(failed), broken)) return;

    for (const wrong of some) {
      const alone = await numbersThatFail(await startWrong(t, wrong));
      assert.deepEqual(alone, wrong.breaks, `a server that ${wrong.does}`);
    }
  });
}

test('where a rule ends the server, it alone fails, and those behind it are not tried', async (t) => {
  let isOver = false;
  const url = await startWrong(t, {
    request: (bytes) => {
      isOver ||= /^GET \/v1\/pets\/% /.test(bytes);
      return bytes;
    },
    answer: (bytes) => (isOver ? 'over\r\n\r\n' : bytes),
  });

  const reasons = new Set<string>();
  const failed: string[] = [];
  for await (const { number, outcome, reason } of verifyPetstore({ url, key })) {
    if (outcome === 'failed') failed.push(number);
    else if (failed.length > 0) reasons.add(reason ?? outcome);
  }
  assert.deepEqual(failed, ['C12']);
  assert.deepEqual([...reasons], ['nothing answers any more since C12 was tried']);
});

test('an address whose path is // has no base path', async (t) => {
  const url = await startWrong(t, { request: replaced(/^(GET|POST) \/pets/g, '$1 /v1/pets') });
  assert.deepEqual(await numbersThatFail(`${url}//`, 'specification'), []);
});

test('a level holds the rules of those before it, and no others', async (t) => {
  const url = await startWrong(t, {
    answer: (bytes) => withoutHeader('Cache-Control')(withoutHeader('Date')(bytes)),
  });
  assert.deepEqual(await numbersThatFail(url, 'specification'), []);
  assert.deepEqual(await numbersThatFail(url, 'http'), ['C64']);
  assert.deepEqual(await numbersThatFail(url, 'full'), ['C47', 'C64']);
});
