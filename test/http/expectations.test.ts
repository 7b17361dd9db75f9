/** C45 Expect: when 100 Continue comes, and when 417 does. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { assertError, header } from '../support/client.js';
import { ask, bytesOf, connectTo, start, stored } from '../support/fixture.js';

const body = '{"name":"a","categoryId":1}';
const expecting = ['Expect: 100-continue'];

test('C45 100 Continue comes only behind route, key, type and declared size', async (t) => {
  const running = await start(t);
  for (const expect of ['Expect: 100-continue', 'expect: 100-Continue']) {
    const client = await connectTo(t, running);
    client.send(bytesOf('POST', '/v1/pets', { headers: [expect, 'Content-Length: 27'] }));
    const interim = await client.answer('POST');
    assert.deepEqual([interim.status, interim.head], [100, 'HTTP/1.1 100 Continue']);
    await sleep(20);
    assert.equal(client.rest, '', 'no final answer before the body');
    client.send(body);
    assert.equal((await client.answer('POST')).status, 201);
    client.send(bytesOf('GET', '/v1/pets?limit=1'));
    assert.equal((await client.answer()).status, 200);
  }
  const refused = [
    [
      401,
      'unauthorized',
      bytesOf('POST', '/v1/pets', {
        headers: [...expecting, 'Content-Length: 27'],
        authorization: 'Bearer no',
      }),
    ],
    [
      401,
      'unauthorized',
      bytesOf('POST', '/v1/pets', {
        headers: [...expecting, 'Content-Length: 27'],
        authorization: null,
      }),
    ],
    [
      404,
      'not_found',
      bytesOf('POST', '/v1/nothing', { headers: [...expecting, 'Content-Length: 27'] }),
    ],
    [
      405,
      'method_not_allowed',
      bytesOf('PUT', '/v1/pets', { headers: [...expecting, 'Content-Length: 27'] }),
    ],
    [
      415,
      'unsupported_media_type',
      bytesOf('POST', '/v1/pets', {
        headers: [...expecting, 'Content-Type: text/plain', 'Content-Length: 27'],
      }),
    ],
    [
      413,
      'content_too_large',
      bytesOf('POST', '/v1/pets', { headers: [...expecting, 'Content-Length: 65537'] }),
    ],
  ] as const;
  await Promise.all(
    refused.map(async ([status, code, bytes]) => {
      const refusal = (await connectTo(t, running)).send(bytes);
      const answer = await refusal.answer('POST');
      assertError(answer, status, code);
      assert.equal(
        header(answer, 'Connection'),
        'close',
        'nobody can tell whether the body still comes',
      );
      assert.ok((await refusal.closed()) < 4_000);
    }),
  );
  const client = (await connectTo(t, running)).send(
    bytesOf('POST', '/v1/pets', { headers: [...expecting, 'Transfer-Encoding: chunked'] }),
  );
  assert.equal((await client.answer('POST')).status, 100);
  client.send(`1b\r\n${body}\r\n0\r\n\r\n`);
  assert.equal((await client.answer('POST')).status, 201);
  assert.equal((await stored(running)).length, 3);
});

test('C45 another Expect answers 417, behind route and key; a GET that expects gets its answer', async (t) => {
  const { port } = await start(t);
  for (const expect of ['foo', '100-continue, foo', '100', '100-continue; a=b', '', '200-ok']) {
    for (const method of ['GET', 'POST']) {
      const words = { headers: [`Expect: ${expect}`], ...(method === 'POST' && { body }) };
      assertError(await ask(port, method, '/v1/pets', words), 417, 'expectation_failed');
      assertError(
        await ask(port, method, '/v1/pets', { ...words, authorization: null }),
        401,
        'unauthorized',
      );
      assertError(await ask(port, method, '/v1/nothing', words), 404, 'not_found');
    }
  }
  assert.equal((await ask(port, 'GET', '/v1/pets', { headers: expecting })).body, '[]');
  assert.equal((await ask(port, 'HEAD', '/v1/pets', { headers: expecting })).status, 200);
});
