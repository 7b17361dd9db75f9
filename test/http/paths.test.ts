/** The contract of paths and methods, C10 to C18, over a socket. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonReply, type Plugin, toByteString } from '../../dist/index.js';
import { assertCommonHeaders, assertError, header } from '../support/client.js';
import { add, ask, bytesOf, connectTo, exchange, start } from '../support/fixture.js';

const noKey = { authorization: null };
const onList = 'GET, HEAD, POST, OPTIONS';
const onOne = 'GET, HEAD, OPTIONS';

test('C10 an id that is no canonical int64 answers 404, behind the key check', async (t) => {
  const { port } = await start(t);
  await add(port, '{"name":"a","categoryId":1}');
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const ids = ['abc', '007', '01', '1.0', '1e0', '+1', '-0', '9223372036854775808', '-9223372036854775809', '%201', '1%20', '1%0A', '0x1', '%00', '1'.repeat(9000), '%EF%BC%91', 'NaN', 'null', '1,2', '1;a', "'", '__proto__', 'constructor'];
  for (const id of ids) {
    assertError(await ask(port, 'GET', `/v1/pets/${id}`), 404, 'not_found');
    assertError(await ask(port, 'GET', `/v1/pets/${id}`, noKey), 401, 'unauthorized');
  }
  for (const id of ['2', '0', '-1', '9223372036854775807', '-9223372036854775808'])
    assertError(await ask(port, 'GET', `/v1/pets/${id}`), 404, 'not_found');
  assert.equal((await ask(port, 'GET', '/v1/pets/1')).body, '{"id":1,"name":"a","categoryId":1}');
  assert.equal(
    (await ask(port, 'GET', '/v1/pets/1?limit=0&x')).status,
    200,
    'its query is not read',
  );
});

test('C11 nothing is normalised: slashes, dots and case are 404, never a redirect', async (t) => {
  const { port } = await start(t);
  await add(port, '{"name":"a","categoryId":1}');
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const paths = ['/', '/v1', '/v1/', '/v1/pets/', '/v1/pets//', '/v1//pets', '//v1/pets', '//', '/v1/pets/1/', '/v1/./pets', '/v1/x/../pets', '/v1/pets/.', '/v1/pets/..', '/v1/pets/%2e', '/v1/pets/%2E%2e', '/%2e/v1/pets', '/V1/pets', '/v1/Pets', '/v1/PETS/1', '/v1/pets;a=b', '/v1/pets.json', '/v1/pets/1/x', '/v1/pets%20', '/healthz/', '/openapi.json/', '/Healthz', '/v1%5cpets', '/v1/pets\\1', '/.//v1/pets'];
  for (const path of paths) {
    const answer = await ask(port, 'GET', path);
    assertError(answer, 404, 'not_found');
    assert.deepEqual([header(answer, 'Location'), answer.kept], [undefined, true], path);
    assertError(await ask(port, 'GET', path, noKey), 404, 'not_found');
  }
});

test('C12 a path is split, then decoded; a malformed escape is 404 in a path and 400 in a query', async (t) => {
  const { port } = await start(t);
  const pet = await add(port, '{"name":"a","categoryId":1}');
  assert.equal((await ask(port, 'GET', '/v1/%70ets/%31')).body, pet);
  assert.equal((await ask(port, 'GET', '/%76%31/%70%65%74%73')).body, `[${pet}]`);
  for (const path of [
    '/v1%2Fpets',
    '/v1%2fpets/1',
    '/v1/pets%2F1',
    '/v1/pets/1%2F',
    '/v1/pets/%2F1',
    '%2Fv1/pets',
    '/v1/%7',
    '/v1/pets/%',
    '/v1/pets/%zz',
    '/v1/pets/%3',
    '/v1/pets/%ff',
    '/v1/pets/%C0%AE',
    '/v1/pets/%ED%A0%80',
    '/v1/%2570ets',
  ]) {
    const bytes = `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer psk_test\r\n\r\n`;
    const answer = await exchange(port, bytes);
    if (path.startsWith('%')) assertError(answer, 400, 'bad_request');
    else assertError(answer, 404, 'not_found');
  }
  assertError(await ask(port, 'GET', '/v1/%zz', noKey), 404, 'not_found');
  for (const query of ['%zz', 'limit=%', 'limit=5%3', 'x=%ff', '%=1', 'limit=5&x=%C0%80']) {
    assertError(await ask(port, 'GET', `/v1/pets?${query}`), 400, 'invalid_parameter');
    assertError(await ask(port, 'GET', `/v1/pets?${query}`, noKey), 401, 'unauthorized');
  }
  assertError(
    await ask(port, 'POST', '/v1/pets?%zz', { body: 'not json' }),
    400,
    'invalid_parameter',
  );
});

test('C13 a target in absolute form is served, whatever its authority', async (t) => {
  const { port } = await start(t);
  const pet = await add(port, '{"name":"a","categoryId":1}');
  for (const origin of [
    'http://any',
    'http://petstore:8080',
    'https://any',
    'HTTP://any',
    'http://[::1]:80',
    'http://user:pass@any',
  ]) {
    assert.equal((await ask(port, 'GET', `${origin}/v1/pets`)).body, `[${pet}]`, origin);
    assert.equal((await ask(port, 'GET', `${origin}/v1/pets/1`)).body, pet);
    assertError(await ask(port, 'GET', `${origin}/v1/pets?limit=0`), 400, 'invalid_parameter');
    assertError(await ask(port, 'GET', `${origin}/v1/pets/`), 404, 'not_found');
  }
  assertError(await ask(port, 'GET', 'http://any'), 404, 'not_found');
  assertError(await ask(port, 'GET', 'http://any?limit=1'), 404, 'not_found');
  assertError(await ask(port, 'GET', 'ftp://any/v1/pets'), 404, 'not_found');
  assertError(await exchange(port, 'GET http://any/v1/pets HTTP/1.1\r\n\r\n'), 400, 'bad_request');
  const home: Plugin = ({ route }) =>
    route({ path: '/', methods: { GET: { handler: () => jsonReply(200, toByteString('1')) } } });
  const { port: homePort } = await start(t, { plugins: [home] });
  for (const target of ['/', 'http://any', 'http://any/', 'http://any?a=b', '/?a=b'])
    assert.equal((await ask(homePort, 'GET', target)).status, 200, target);
});

test('C14 the orders and every other path are 404, key or no key', async (t) => {
  const { port } = await start(t);
  for (const path of [
    '/v1/store/orders',
    '/v1/store',
    '/v1/orders',
    '/v2/pets',
    '/pets',
    '/v1/pets/1/photos',
    '/favicon.ico',
    '/v1/user',
  ]) {
    for (const method of ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']) {
      const answer = await ask(port, method, path, noKey);
      if (method === 'HEAD') assert.deepEqual([answer.status, answer.body], [404, '']);
      else assertError(answer, 404, 'not_found');
      assert.equal(header(answer, 'Allow'), undefined);
    }
    assertError(await ask(port, 'GET', path), 404, 'not_found');
  }
});

test('C15 a known path with another method answers 405 with Allow, key or no key, whatever the id', async (t) => {
  const { port } = await start(t);
  for (const words of [
    {},
    noKey,
    { authorization: 'Bearer wrong' },
    { body: '{' },
    { headers: ['Expect: 100-continue'] },
  ]) {
    for (const method of [
      'PUT',
      'PATCH',
      'DELETE',
      'TRACE',
      'PROPFIND',
      'PURGE',
      'LINK',
      'M-SEARCH',
      'CONNECT',
    ]) {
      if (method === 'CONNECT' && 'body' in words) continue;
      const list = await ask(port, method, '/v1/pets', words);
      assertError(list, 405, 'method_not_allowed');
      assert.equal(header(list, 'Allow'), onList);
      for (const id of ['1', 'abc', '-0']) {
        const one = await ask(port, method, `/v1/pets/${id}`, words);
        assertError(one, 405, 'method_not_allowed');
        assert.equal(header(one, 'Allow'), onOne);
      }
    }
  }
  assert.equal(header(await ask(port, 'POST', '/v1/pets/1', noKey), 'Allow'), onOne);
  assertError(await ask(port, 'POST', '/v1/pets/1', noKey), 405, 'method_not_allowed');
  for (const path of ['/healthz', '/readyz', '/openapi.json']) {
    const answer = await ask(port, 'POST', path, noKey);
    assertError(answer, 405, 'method_not_allowed');
    assert.equal(header(answer, 'Allow'), onOne);
  }
});

test('C16 HEAD answers as GET without the body, key check included', async (t) => {
  const { port } = await start(t);
  await add(port, '{"name":"Ünal","categoryId":1}');
  for (const path of [
    '/v1/pets',
    '/v1/pets?limit=1',
    '/v1/pets?limit=0',
    '/v1/pets/1',
    '/v1/pets/2',
    '/nowhere',
    '/healthz',
    '/readyz',
    '/openapi.json',
  ]) {
    for (const words of [{}, noKey]) {
      const [head, get] = [
        await ask(port, 'HEAD', path, words),
        await ask(port, 'GET', path, words),
      ];
      assert.equal(head.body, '');
      assert.equal(head.kept, true);
      assert.equal(header(head, 'Content-Length'), String(get.body.length));
      const without = (text: string): string => text.replace(/\r\nDate: [^\r]*/, '');
      assert.equal(without(head.head), without(get.head), path);
    }
  }
});

test('C17 OPTIONS on a known path and OPTIONS * answer 204 with Allow and no body, no key needed', async (t) => {
  const { port } = await start(t);
  for (const [path, allow] of [
    ['/v1/pets', onList],
    ['/v1/pets/1', onOne],
    ['/v1/pets/abc', onOne],
    ['*', onList],
    ['/healthz', onOne],
    ['http://any/v1/pets', onList],
  ] as const) {
    for (const words of [{}, noKey]) {
      const answer = await ask(port, 'OPTIONS', path, words);
      assert.deepEqual(
        [answer.status, header(answer, 'Allow'), answer.body, answer.kept],
        [204, allow, '', true],
      );
      assert.equal(header(answer, 'Content-Type'), undefined);
      assert.equal(header(answer, 'Content-Length'), undefined);
      assertCommonHeaders(answer);
    }
  }
  assertError(await ask(port, 'GET', '*'), 404, 'not_found');
  assertError(await ask(port, 'OPTIONS', '/nowhere', noKey), 404, 'not_found');
});

test('C18 an unknown method token answers 501 and closes; in pieces it is garbage, and 400', async (t) => {
  const { port } = await start(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const methods = ['FOO', 'get', 'Get', 'GETS', 'GE', 'G', 'POSTT', 'PLAY', 'FLUSH', 'DESCRIBE', 'X-Y', "!#$%&'*+-.^_`|~09", 'PO', 'OPTION', 'CONNECTT', 'Q'.repeat(3000)];
  for (const method of methods) {
    for (const target of ['/v1/pets', '/nowhere', '*']) {
      for (const send of ['whole', 'drip'] as const) {
        if (method.length > 100 && send === 'drip') continue;
        const answer = await exchange(
          port,
          `${method} ${target} HTTP/1.1\r\nHost: a\r\n\r\n`,
          method,
          send,
        );
        if (send === 'whole') assertError(answer, 501, 'not_implemented');
        // The parser gives up at the first letter that no method has; the first packet then
        // decides.
        else assert.ok([400, 501].includes(answer.status), answer.body);
        assert.equal(answer.kept, false);
      }
    }
  }
  for (const bytes of [
    'FOO\r\n',
    'FOO /\r\n\r\n',
    'FOO / HTTP/9.9\r\n\r\n',
    'F(O / HTTP/1.1\r\n\r\n',
    'FOO  HTTP/1.1\r\n\r\n',
    'FOO / HTTP/1.1 \r\n\r\n',
    'FOO /é HTTP/1.1\r\n\r\n',
    ' GET / HTTP/1.1\r\n\r\n',
  ]) {
    for (const send of ['whole', 'drip'] as const)
      assertError(await exchange(port, bytes, 'FOO', send), 400, 'bad_request');
  }
});

test('C18 C42 garbage after a long run of letters takes no time that grows faster than its length', async (t) => {
  const { port } = await start(t);
  const begin = performance.now();
  for (let times = 0; times < 5; times++) {
    const run = 'a'.repeat(60_000);
    // A body that is waited for, so that its answer does not close before the garbage came.
    const headers = ['Content-Type: application/json'];
    const bytes = `${bytesOf('POST', '/v1/pets', { headers, body: `${run}"` })}{}`;
    const client = (await connectTo(t, { port })).send(bytes);
    assertError(await client.answer('POST'), 400, 'invalid_json');
    assertError(await client.answer(), 400, 'bad_request');
  }
  // A search of quadratic time took 15 s for each.
  assert.ok(performance.now() - begin < 15_000);
});
