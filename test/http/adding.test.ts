/** What the suite cannot see of listing and adding: our own words, ids from 1, and what needs an option. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPetstore, parseDraft, petFields, petStatuses } from '../../dist/index.js';
import { assertError } from '../support/client.js';
import { add, ask, start, stored } from '../support/fixture.js';

const limitRule = 'limit must be an integer from 1 to 100, in decimal digits.';
const afterRule = 'after must be an integer from 0 to 9223372036854775807, in decimal digits.';
const statuses = petStatuses.join(', ');
const nameRule = 'name must be a string';
const categoryRule =
  'categoryId must be an integer from -9223372036854775808 to 9223372036854775807';
const missing = (rule: string): string => rule.replace('must', 'is missing; it must');
const words = petStatuses.map((status) => `"${status}"`).join(', ');
const statusRule = `status must be one of ${words}, or be left out`;

test('C1 C2 C3 C6 the message of a wrong parameter is its rule', async (t) => {
  const { port } = await start(t);
  for (const [query, message] of [
    ['limit=0', limitRule],
    ['limit=05', limitRule],
    ['limit=5&limit=5', 'limit must be given only once.'],
    ['after=-1', afterRule],
    ['after=1&after=1', 'after must be given only once.'],
    ['status', `status must be one of ${statuses}.`],
    ['status=SOLD', `status must be one of ${statuses}.`],
    ['status=sold&status=sold', 'status must be given only once.'],
  ] as const) {
    const answer = await ask(port, 'GET', `/v1/pets?${query}`);
    assert.equal(assertError(answer, 400, 'invalid_parameter'), message, query);
  }
});

test('C20 C31 the message of a wrong body is the rule of each field; nothing of it is stored, and it takes no id', async (t) => {
  const running = await start(t);
  for (const [body, message] of [
    ['{}', `${missing(nameRule)}; ${missing(categoryRule)}.`],
    ['{"name":null}', `${nameRule}; ${missing(categoryRule)}.`],
    ['{"name":1,"categoryId":"1","status":1}', `${nameRule}; ${categoryRule}; ${statusRule}.`],
    ['{"name":"a","categoryId":1,"status":null}', `${statusRule}.`],
    ['[]', 'The body must be a JSON object.'],
  ] as const) {
    const answer = await ask(running.port, 'POST', '/v1/pets', { body });
    assert.equal(assertError(answer, 400, 'invalid_body'), message, body);
  }
  assert.deepEqual(await stored(running), []);

  const bodies = await Promise.all(
    Array.from({ length: 60 }, () => add(running.port, '{"name":"a","categoryId":1}')),
  );
  const ids = bodies.map((body): number => JSON.parse(body).id).sort((a, b) => a - b);
  assert.deepEqual(
    ids,
    Array.from({ length: 60 }, (_, index) => index + 1),
  );
});

test('C20 the rule is said in the words of whoever reads the value', () => {
  const said = (message: string) => ({ code: 'invalid_body', message });
  assert.throws(() => parseDraft([], 'The line'), said('The line must be a JSON object.'));
  assert.throws(() => parseDraft([]), said('The body must be a JSON object.'));
});

test('C24 what is no int64 answers 400 at no cost', async (t) => {
  const running = await start(t, { maxBodyBytes: 4_000_000 });
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const numbers = ['9223372036854775808', '-9223372036854775809', '1.5', '1e400', '-1e400', '1e19', '1e-1', '0.1', '1e99999999999999999999', '1e-99999999999999999999', '9'.repeat(1_000_000), `1.${'0'.repeat(1_000_000)}1`, `1e${'9'.repeat(1_000_000)}`];
  for (const number of numbers) {
    const since = performance.now();
    const answer = await ask(running.port, 'POST', '/v1/pets', {
      body: `{"name":"a","categoryId":${number}}`,
    });
    assert.equal(assertError(answer, 400, 'invalid_body'), `${categoryRule}.`, number.slice(0, 30));
    assert.ok(
      performance.now() - since < 10_000,
      `${number.slice(0, 30)} took ${performance.now() - since} ms`,
    );
  }
  assert.match(
    await add(running.port, `{"name":"a","categoryId":1${'0'.repeat(3_000_000)}e-3000000}`),
    /"categoryId":1\}$/,
  );
});

test('C60 a JSON text has at most 65,536 values, those inside others too', async (t) => {
  const running = await start(t, { maxBodyBytes: 2 ** 20 });
  // The object, its two members, the array and what is in it.
  const withValues = (count: number): string =>
    `{"name":"a","categoryId":1,"x":[${'0,'.repeat(count - 5)}{}]}`;
  await add(running.port, withValues(65_536));
  const message = assertError(
    await ask(running.port, 'POST', '/v1/pets', { body: withValues(65_537) }),
    400,
    'invalid_json',
  );
  assert.match(message, /over 65536 values, at byte \d+\.$/);
  assert.deepEqual(await stored(running), ['1 a 1 -']);
});

test('C28 a Content-Type of spaces, quotes or semicolons takes no time that grows faster than its length', async () => {
  const petstore = createPetstore({ keys: ['secret'] });
  for (const part of [' ', '\t', ';', '; ', '"', '\\"', '; a=', '; a="', 'a; a="\\']) {
    const contentType = `a${part.repeat(100_000)} x`;
    const since = performance.now();
    const headers = { Authorization: 'Bearer secret', 'Content-Type': contentType };
    const answer = await petstore.fetch('http://any/v1/pets', {
      method: 'POST',
      headers,
      body: '{}',
    });
    assert.equal(answer.status, 415);
    const ms = performance.now() - since;
    // Some milliseconds; with the square of the length it is many seconds.
    assert.ok(ms < 2_000, `${JSON.stringify(part)}: ${ms} ms`);
  }
});

test('C29 the limit is an option, and exact', async (t) => {
  const running = await start(t, { maxBodyBytes: 27 });
  await add(running.port, '{"name":"a","categoryId":1}');
  assertError(
    await ask(running.port, 'POST', '/v1/pets', { body: '{"name":"ab","categoryId":1}' }),
    413,
    'content_too_large',
  );
});

test('the fields that plugins share are frozen', () => {
  for (const shared of [petFields, ...petFields, ...petFields.map(({ type }) => type)])
    assert.ok(Object.isFrozen(shared));
});
