/** The contract of the deprecated operation, C33 to C35, and of its clock. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { assertError, Client, header, type Answer } from '../support/client.js';
import { add, ask, bytesOf, exchange, start } from '../support/fixture.js';

const lastMoment = Date.UTC(2030, 11, 6) - 1;
const link = '</v1/pets>; rel="successor-version"';
const sunset = 'Thu, 05 Dec 2030 23:59:59 GMT';

function announcement(answer: Answer): readonly (string | undefined)[] {
  return [header(answer, 'Deprecation'), header(answer, 'Sunset'), header(answer, 'Link')];
}

test('C33 every answer of the deprecated route announces its end, errors included, and no other route does', async (t) => {
  const { port } = await start(t, { clock: () => lastMoment });
  await add(port, '{"name":"a","categoryId":1}');
  const answers: readonly [number, Answer][] = [
    [200, await ask(port, 'GET', '/v1/pets/1')],
    [200, await ask(port, 'HEAD', '/v1/pets/1')],
    [404, await ask(port, 'GET', '/v1/pets/2')],
    [404, await ask(port, 'GET', '/v1/pets/abc')],
    [401, await ask(port, 'GET', '/v1/pets/1', { authorization: null })],
    [401, await ask(port, 'GET', '/v1/pets/1', { authorization: 'Bearer no' })],
    [405, await ask(port, 'DELETE', '/v1/pets/1')],
    [204, await ask(port, 'OPTIONS', '/v1/pets/1')],
    [417, await ask(port, 'GET', '/v1/pets/1', { headers: ['Expect: miracles'] })],
    [400, await ask(port, 'GET', '/v1/pets/1?%zz')],
  ];
  for (const [status, answer] of answers) {
    assert.equal(answer.status, status);
    assert.deepEqual(announcement(answer), ['@1795132800', sunset, link], answer.head);
  }
  for (const path of ['/v1/pets', '/v1/pets/1/x', '/healthz', '/v1/pets/']) {
    assert.deepEqual(
      announcement(await ask(port, 'GET', path)),
      [undefined, undefined, undefined],
      path,
    );
  }
  assert.equal(1795132800, Date.UTC(2026, 10, 20) / 1000);
  assert.equal(new Date(Date.UTC(2030, 11, 5, 23, 59, 59)).toUTCString(), sunset);
});

test('C34 the route is served through the last millisecond of 5 December 2030 UTC', async (t) => {
  const { port } = await start(t, { clock: () => lastMoment });
  const pet = await add(port, '{"name":"a","categoryId":1}');
  assert.equal((await ask(port, 'GET', '/v1/pets/1')).body, pet);
});

test('C35 from 6 December 2030 on the route is gone for every method, without a restart', async (t) => {
  let now = lastMoment;
  const { port } = await start(t, { clock: () => now });
  const client = (await Client.connect(port)).send(
    bytesOf('POST', '/v1/pets', { body: '{"name":"a","categoryId":1}' }),
  );
  atEnd(t, () => client.destroy());
  const before = await client.answer('POST');
  assert.equal(header(before, 'Location'), '/v1/pets/1');
  assert.ok('/pets/{petId}' in JSON.parse((await ask(port, 'GET', '/openapi.json')).body).paths);

  now = lastMoment + 1;
  client.send(bytesOf('GET', '/v1/pets/1'));
  assert.match(assertError(await client.answer(), 404, 'not_found'), /GET \/v1\/pets\b/);
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'DELETE', 'POST', 'PUT', 'TRACE', 'CONNECT']) {
    for (const words of [{}, { authorization: null }]) {
      const answer = await ask(port, method, '/v1/pets/1', words);
      if (method === 'HEAD') assert.deepEqual([answer.status, answer.body], [404, '']);
      else assert.match(assertError(answer, 404, 'not_found'), /GET \/v1\/pets\b/);
      assert.deepEqual(
        [announcement(answer), header(answer, 'Allow')],
        [[undefined, undefined, undefined], undefined],
      );
    }
  }
  assertError(
    await exchange(port, 'FOO /v1/pets/1 HTTP/1.1\r\nHost: a\r\n\r\n', 'FOO'),
    501,
    'not_implemented',
  );

  const added = await ask(port, 'POST', '/v1/pets', { body: '{"name":"b","categoryId":1}' });
  assert.deepEqual(
    [added.status, header(added, 'Location')],
    [201, undefined],
    'C30: a Location that leads nowhere is left out',
  );
  const document = JSON.parse((await ask(port, 'GET', '/openapi.json')).body);
  assert.deepEqual(Object.keys(document.paths), ['/pets']);
  assert.ok(!JSON.stringify(document).includes('getPet'));

  now = lastMoment;
  assert.equal(
    (await ask(port, 'GET', '/v1/pets/2')).status,
    200,
    'a clock that is set back brings it back',
  );
  assert.ok('/pets/{petId}' in JSON.parse((await ask(port, 'GET', '/openapi.json')).body).paths);
});
