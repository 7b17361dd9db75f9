/**
 * Tests of listing and adding that the conformance suite cannot make: the words of messages, ids
 * from 1, options, and a clock that passes the end of the deprecated operation (C35).
 */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { test } from 'node:test';
import { createPetstore, parseDraft, petFields, petStatuses } from '../../dist/index.js';
import { assertError } from '../support/client.js';
import {
  add,
  sendRequest,
  requestBytes,
  connectTo,
  key,
  start,
  storedPets,
} from '../support/fixture.js';
import { petJson, expectResponse, blockedKeys, keyHeaders } from '../support/scenes.js';

const limitRule = 'limit must be an integer from 1 to 100, in decimal digits.';
const afterRule = 'after must be an integer from 0 to 9223372036854775807, in decimal digits.';
const statusesRule = `status must be one of ${petStatuses.join(', ')}.`;
const nameRule = 'name must be a string';
const categoryRule =
  'categoryId must be an integer from -9223372036854775808 to 9223372036854775807';
const missing = (rule: string): string => rule.replace('must', 'is missing; it must');
const words = petStatuses.map((status) => `"${status}"`).join(', ');
const statusRule = `status must be one of ${words}, or be left out`;

test('C1 C2 C3 C6 explains in the message what a query parameter must be', async (t) => {
  const { port } = await start(t);
  for (const [query, message] of [
    ['limit=0', limitRule],
    ['limit=05', limitRule],
    ['limit=5&limit=5', 'limit must be given only once.'],
    ['after=-1', afterRule],
    ['after=1&after=1', 'after must be given only once.'],
    ['status', statusesRule],
    ['status=SOLD', statusesRule],
    ['status=sold&status=sold', 'status must be given only once.'],
  ] as const) {
    const response = await sendRequest(port, 'GET', `/v1/pets?${query}`);
    assert.equal(assertError(response, 400, 'invalid_parameter'), message, query);
  }
});

test('C20 C24 C31 explains each invalid field, stores nothing, takes no id, and parses long numbers fast', async (t) => {
  const running = await start(t, { maxBodyBytes: 4_000_000 });
  const { port } = running;
  const long = 1_000_000;
  const numbers = ['9'.repeat(long), `1.${'0'.repeat(long)}1`, `1e${'9'.repeat(long)}`];
  for (const [body, message] of [
    ['{}', `${missing(nameRule)}; ${missing(categoryRule)}.`],
    ['{"name":null}', `${nameRule}; ${missing(categoryRule)}.`],
    ['{"name":1,"categoryId":"1","status":1}', `${nameRule}; ${categoryRule}; ${statusRule}.`],
    ['{"name":"a","categoryId":1,"status":null}', `${statusRule}.`],
    ['[]', 'The body must be a JSON object.'],
    ...numbers.map(
      (number) => [`{"name":"a","categoryId":${number}}`, `${categoryRule}.`] as const,
    ),
  ] as const) {
    const since = performance.now();
    const response = await sendRequest(port, 'POST', '/v1/pets', { body });
    const what = body.slice(0, 50);
    assert.equal(assertError(response, 400, 'invalid_body'), message, what);
    const ms = performance.now() - since;
    assert.ok(ms < 10_000, `${what} took ${ms} ms`);
  }
  assert.deepEqual(await storedPets(running), []);

  const bodies = await Promise.all(Array.from({ length: 60 }, () => add(port, petJson)));
  const ids = bodies.map((body): number => JSON.parse(body).id).sort((a, b) => a - b);
  assert.deepEqual(
    ids,
    bodies.map((_, index) => index + 1),
  );
  const zeros = `{"name":"a","categoryId":1${'0'.repeat(3_000_000)}e-3000000}`;
  assert.match(await add(port, zeros), /"categoryId":1\}$/);
});

test('C20 names the rejected value in the words of the caller', () => {
  const error = (message: string) => ({ code: 'invalid_body', message });
  assert.throws(() => parseDraft([], 'The line'), error('The line must be a JSON object.'));
  assert.throws(() => parseDraft([]), error('The body must be a JSON object.'));
});

test('C60 rejects JSON with over 65,536 values, nested values included', async (t) => {
  const running = await start(t, { maxBodyBytes: 2 ** 20 });
  // The object, the values of its two members, the array, and the elements of the array.
  const withValues = (count: number): string =>
    `{"name":"a","categoryId":1,"x":[${'0,'.repeat(count - 5)}{}]}`;
  await add(running.port, withValues(65_536));
  const response = await sendRequest(running.port, 'POST', '/v1/pets', {
    body: withValues(65_537),
  });
  assert.match(assertError(response, 400, 'invalid_json'), /over 65536 values, at byte \d+\.$/);
  assert.deepEqual(await storedPets(running), ['1 a 1 -']);
});

test('C28 accepts every common spelling of UTF-8, and no other charset', async () => {
  const { fetch } = createPetstore({ keys: [key] });
  const statusOf = async (parameters: string): Promise<number> => {
    const headers = { ...keyHeaders, 'Content-Type': `application/json${parameters}` };
    return (await fetch('http://any/v1/pets', { method: 'POST', headers, body: petJson })).status;
  };
  for (const value of ['utf8', 'UTF8', 'utf-8', '"utf8"', '"UTF-8"', "'utf-8'", "'Utf8'"])
    for (const [before, after] of [
      ['; charset=', ''],
      [' ;\tCharset = ', ' ;'],
      ['; a=b;charset=', '; charset=utf-8'],
    ])
      assert.equal(await statusOf(`${before}${value}${after}`), 201, `${before}${value}${after}`);

  const others = ['latin1', 'utf-16', 'utf', 'utf-88', 'utf--8', 'utf 8', '""', `'utf8"`, '"utf8'];
  for (const value of others)
    for (const before of ['; charset=', '; charset = ', '; charset=utf8; charset='])
      assert.equal(await statusOf(before + value), 415, before + value);
});

test('C28 parses a Content-Type in time that is linear in its length', async () => {
  const { fetch } = createPetstore({ keys: [key] });
  const parts = [
    ' ',
    '\t',
    ';',
    '; ',
    '"',
    '\\"',
    '; a=',
    '; a="',
    'a; a="\\',
    'a = ',
    '; charset',
  ];
  for (const part of parts.flatMap((each) => [
    `a${each.repeat(100_000)} x`,
    each.repeat(100_000),
  ])) {
    const headers = { ...keyHeaders, 'Content-Type': `application/json;${part}|` };
    const since = performance.now();
    const response = await fetch('http://any/v1/pets', { method: 'POST', headers, body: '{}' });
    assert.equal(response.status, 415);
    const ms = performance.now() - since;
    // It takes some milliseconds. Quadratic time would be many seconds.
    assert.ok(ms < 2_000, `${JSON.stringify(part.slice(0, 20))}: ${ms} ms`);
  }
});

test('C29 rejects a body of one byte over the option maxBodyBytes', async (t) => {
  const { port } = await start(t, { maxBodyBytes: petJson.length });
  await add(port, petJson);
  const body = `${petJson} `;
  await expectResponse(port, 'POST /v1/pets', '413 content_too_large', { body });
});

test('C29 waits for the end of a body that has reached the limit exactly', async (t) => {
  const { keys, verifying, unblock } = blockedKeys();
  const running = await start(t, { keys, maxBodyBytes: petJson.length });
  const client = await connectTo(t, running);
  const headers = ['Transfer-Encoding: chunked'];
  const chunk = `${petJson.length.toString(16)}\r\n${petJson}\r\n`;
  client.send(requestBytes('POST', '/v1/pets', { headers }) + chunk);
  await verifying;
  unblock();
  await nextTurn();
  client.send('1\r\n \r\n0\r\n\r\n');
  assertError(await client.nextResponse(), 413, 'content_too_large');
});

test('C35 removes the route on 6 December 2030 by the clock, without a restart', async (t) => {
  const gone = Date.UTC(2030, 11, 6);
  let now = gone;
  const { port } = await start(t, { clock: () => now });
  await add(port, petJson);
  const client = await connectTo(t, { port });
  for (const [clock, status, paths] of [
    [gone - 1, 200, '/pets /pets/{petId}'],
    [gone, 404, '/pets'],
    [gone - 1, 200, '/pets /pets/{petId}'],
  ] as const) {
    now = clock;
    const response = await client.send(requestBytes('GET', '/v1/pets/1')).nextResponse();
    assert.equal(response.status, status);
    if (status === 404) assert.match(response.body, /GET \/v1\/pets\b/);
    const document = JSON.parse((await sendRequest(port, 'GET', '/openapi.json')).body);
    assert.equal(Object.keys(document.paths).join(' '), paths);
  }
});

test('freezes the table of fields, which plugins share', () => {
  for (const shared of [petFields, ...petFields, ...petFields.map(({ type }) => type)])
    assert.ok(Object.isFrozen(shared));
});
