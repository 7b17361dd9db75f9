/** The contract of listing, C1 to C9, over a socket. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { petStatuses } from '../../dist/index.js';
import { atEnd } from '../support/at-end.js';
import { assertCommonHeaders, assertError, Client, header } from '../support/client.js';
import { add, ask, bytesOf, ofItsOwn, start } from '../support/fixture.js';

const limitRule = 'limit must be an integer from 1 to 100, in decimal digits.';
const statusRule = `status must be one of ${petStatuses.join(', ')}.`;
const afterRule = 'after must be an integer from 0 to 9223372036854775807, in decimal digits.';

test('C1 a limit or status against its rule answers 400, names parameter and rule, and never echoes the value', async (t) => {
  const { port } = await start(t);
  for (const limit of [
    '0',
    '-1',
    '101',
    '1000',
    'abc',
    'NaN',
    'Infinity',
    '99999999999999999999',
    'null',
    'true',
    '0x5',
    '5;',
    "5'--",
  ]) {
    assert.equal(
      assertError(await ask(port, 'GET', `/v1/pets?limit=${limit}`), 400, 'invalid_parameter'),
      limitRule,
      limit,
    );
  }
  for (const status of [
    '',
    'Available',
    'SOLD',
    'sold%20',
    '%20sold',
    'sold,pending',
    'unknown',
    'null',
    'sold%00',
    '%3Cscript%3E',
  ]) {
    assert.equal(
      assertError(await ask(port, 'GET', `/v1/pets?status=${status}`), 400, 'invalid_parameter'),
      statusRule,
      status,
    );
  }
  assert.equal(
    assertError(await ask(port, 'GET', '/v1/pets?status'), 400, 'invalid_parameter'),
    statusRule,
  );
  for (const limit of ['1', '20', '99', '100'])
    assert.equal((await ask(port, 'GET', `/v1/pets?limit=${limit}`)).status, 200);
});

test('C1 HEAD of a bad parameter answers the same head without the body', async (t) => {
  const { port } = await start(t);
  const answer = await ask(port, 'HEAD', '/v1/pets?limit=0');
  assert.deepEqual(
    [answer.status, answer.body, header(answer, 'Content-Type')],
    [400, '', 'application/json'],
  );
  assert.equal(
    header(answer, 'Content-Length'),
    String((await ask(port, 'GET', '/v1/pets?limit=0')).body.length),
  );
});

test('C2 an integer parameter is written in plain decimal digits, and only so', async (t) => {
  const { port } = await start(t);
  for (const text of [
    '05',
    '+5',
    '%2B5',
    '5.0',
    '1e1',
    '%205',
    '5%20',
    '5%0A',
    '',
    '00',
    '-0',
    '5_0',
    '%EF%BC%95',
    '٥'.replace(/./u, encodeURIComponent),
  ]) {
    assert.equal(
      assertError(await ask(port, 'GET', `/v1/pets?limit=${text}`), 400, 'invalid_parameter'),
      limitRule,
      text,
    );
    if (text !== '00')
      assert.equal(
        assertError(await ask(port, 'GET', `/v1/pets?after=${text}`), 400, 'invalid_parameter'),
        afterRule,
        text,
      );
  }
  for (const text of ['00', '-1', '9223372036854775808', '1'.repeat(1000)])
    assertError(await ask(port, 'GET', `/v1/pets?after=${text}`), 400, 'invalid_parameter');
  for (const text of ['0', '1', '9223372036854775807', '%31'])
    assert.equal((await ask(port, 'GET', `/v1/pets?after=${text}`)).status, 200, text);
  assert.equal((await ask(port, 'GET', '/v1/pets?limit=%35')).status, 200);
});

test('C3 a parameter given twice answers 400, equal values and escaped names included', async (t) => {
  const { port } = await start(t);
  for (const query of [
    'limit=5&limit=5',
    'limit=5&limit=6',
    'limit=5&%6cimit=5',
    'limit=5&x=1&limit=',
    'limit=5&limit',
  ]) {
    assert.match(
      assertError(await ask(port, 'GET', `/v1/pets?${query}`), 400, 'invalid_parameter'),
      /^limit must be given only once\.$/,
    );
  }
  assert.match(
    assertError(
      await ask(port, 'GET', '/v1/pets?status=sold&status=sold'),
      400,
      'invalid_parameter',
    ),
    /^status /,
  );
  assert.match(
    assertError(await ask(port, 'GET', '/v1/pets?after=1&after=1'), 400, 'invalid_parameter'),
    /^after /,
  );
});

test('C4 unknown query parameters are ignored, however odd and however often', async (t) => {
  const { port } = await start(t);
  for (const query of [
    'x=1',
    'x=1&x=2',
    'Limit=0',
    'LIMIT=999',
    'offset=-1',
    '',
    '&',
    '&&=&=',
    '=',
    '?limit=0',
    '__proto__=1',
    'limit%00=0',
    'limit[]=0',
  ]) {
    const answer = await ask(port, 'GET', `/v1/pets?${query}`);
    assert.deepEqual([answer.status, answer.body], [200, '[]'], query);
  }
});

test('C5 animals come by ascending id, from the first page to the last', async (t) => {
  const { port } = await start(t);
  for (let i = 1; i <= 12; i++) await add(port, `{"name":"${i}","categoryId":${i % 3}}`);
  const { body } = await ask(port, 'GET', '/v1/pets');
  assert.equal(
    body,
    `[${Array.from({ length: 12 }, (_, i) => `{"id":${i + 1},"name":"${i + 1}","categoryId":${(i + 1) % 3}}`).join(',')}]`,
  );
});

test('C6 a page that more animals follow has a Link to the next, the last page has none, and the body is a bare array', async (t) => {
  const { port } = await start(t, ofItsOwn);
  for (let i = 1; i <= 45; i++)
    await add(port, `{"name":"n","categoryId":1${i % 2 ? ',"status":"sold"' : ''}}`);
  const first = await ask(port, 'GET', '/v1/pets');
  assert.equal(header(first, 'Link'), '</v1/pets?limit=20&after=20>; rel="next"');
  assert.equal(
    header(await ask(port, 'GET', '/v1/pets?after=25&limit=20'), 'Link'),
    undefined,
    'exactly 20 are left',
  );
  assert.equal(
    header(await ask(port, 'GET', '/v1/pets?after=24&limit=20'), 'Link'),
    '</v1/pets?limit=20&after=44>; rel="next"',
  );
  assert.equal(
    header(await ask(port, 'GET', '/v1/pets?status=sold&limit=7&x=y'), 'Link'),
    '</v1/pets?limit=7&status=sold&after=13>; rel="next"',
  );
  assert.equal(header(await ask(port, 'HEAD', '/v1/pets'), 'Link'), header(first, 'Link'));

  for (const query of [
    'limit=7',
    'limit=7&status=sold',
    'limit=1&status=sold',
    'limit=100',
    'limit=45',
  ]) {
    const ids: number[] = [];
    let next: string | undefined = `/v1/pets?${query}`;
    while (next !== undefined) {
      const page = await ask(port, 'GET', next);
      const pets: { id: number }[] = JSON.parse(page.body);
      assert.ok(pets.length > 0, 'no page is empty where the one before promised more');
      ids.push(...pets.map(({ id }) => id));
      next = /^<([^>]+)>; rel="next"$/.exec(header(page, 'Link') ?? '')?.[1];
    }
    const all = Array.from({ length: 45 }, (_, i) => i + 1);
    assert.deepEqual(ids, query.includes('sold') ? all.filter((id) => id % 2) : all, query);
  }
  assert.equal((await ask(port, 'GET', '/v1/pets?after=9223372036854775807')).body, '[]');
  assert.equal(
    (await ask(port, 'GET', '/v1/pets?after=0&limit=1')).body,
    '[{"id":1,"name":"n","categoryId":1,"status":"sold"}]',
  );
});

test('C7 the filter is exact, and an animal without a status matches none', async (t) => {
  const { port } = await start(t);
  const none = await add(port, '{"name":"a","categoryId":1}');
  const byStatus = new Map<string, string>();
  for (const status of ['available', 'pending', 'sold'])
    byStatus.set(
      status,
      await add(port, `{"name":"${status}","categoryId":1,"status":"${status}"}`),
    );
  for (const [status, json] of byStatus)
    assert.equal((await ask(port, 'GET', `/v1/pets?status=${status}`)).body, `[${json}]`);
  assert.equal(
    (await ask(port, 'GET', '/v1/pets')).body,
    `[${[none, ...byStatus.values()].join(',')}]`,
  );
});

test('C56 Location and Link begin with /v1 where no base URL is given', async (t) => {
  const { port } = await start(t);
  await add(port, '{"name":"a","categoryId":1}');
  const second = await ask(port, 'POST', '/v1/pets', { body: '{"name":"b","categoryId":1}' });
  assert.equal(header(second, 'Location'), '/v1/pets/2');
  assert.equal(
    header(await ask(port, 'GET', '/v1/pets?limit=1'), 'Link'),
    '</v1/pets?limit=1&after=1>; rel="next"',
  );
});

test('C56 Location and every Link begin with the path of the base URL, a $ in it and all', async (t) => {
  const { port } = await start(t, { baseUrl: 'https://a.example/$&shop/v1/' });
  const added = await ask(port, 'POST', '/v1/pets', { body: '{"name":"a","categoryId":1}' });
  assert.equal(header(added, 'Location'), '/$&shop/v1/pets/1');
  await add(port, '{"name":"b","categoryId":1}');
  assert.equal(
    header(await ask(port, 'GET', '/v1/pets?limit=1'), 'Link'),
    '</$&shop/v1/pets?limit=1&after=1>; rel="next"',
  );
  for (const id of [1, 3]) {
    assert.equal(
      header(await ask(port, 'GET', `/v1/pets/${id}`), 'Link'),
      '</$&shop/v1/pets>; rel="successor-version"',
    );
  }
});

test('C8 nothing that matches is 200 and an empty array, with no Link', async (t) => {
  const { port } = await start(t);
  await add(port, '{"name":"a","categoryId":1,"status":"sold"}');
  for (const query of ['?status=pending', '?after=1', '?after=100&status=sold']) {
    const answer = await ask(port, 'GET', `/v1/pets${query}`);
    assert.deepEqual([answer.status, answer.body, header(answer, 'Link')], [200, '[]', undefined]);
    assert.equal(header(answer, 'Content-Type'), 'application/json');
    assertCommonHeaders(answer);
  }
});

test('C9 the body of a GET is ignored, and what follows it on the connection is served', async (t) => {
  const { port } = await start(t);
  for (const body of ['{"name":"x","categoryId":1}', 'not json', 'x'.repeat(20_000)]) {
    for (const headers of [[], ['Content-Type: text/plain'], ['Content-Encoding: gzip']]) {
      const answer = await ask(port, 'GET', '/v1/pets', { body, headers });
      assert.deepEqual([answer.status, answer.body, answer.kept], [200, '[]', true]);
    }
  }
  const chunked = bytesOf('GET', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] });
  const client = (await Client.connect(port)).send(
    `${chunked}3\r\nabc\r\n0\r\n\r\n${chunked}0\r\n\r\n`,
  );
  atEnd(t, () => client.destroy());
  assert.equal((await client.answer()).body, '[]');
  assert.equal((await client.answer()).body, '[]');
});

test('C9 the body of a GET that goes on over the limit is answered at once, then the connection closes', async (t) => {
  const { port } = await start(t);
  const client = (await Client.connect(port)).send(
    bytesOf('GET', '/v1/pets', { headers: ['Content-Length: 1000000'] }),
  );
  atEnd(t, () => client.destroy());
  const answer = await client.answer('GET');
  assert.deepEqual(
    [answer.status, answer.body, header(answer, 'Connection')],
    [200, '[]', 'close'],
  );
  client.send('x'.repeat(80_000));
  assert.ok((await client.closed()) < 900, '64 KiB end it before the second does');
});

test('C5 a page that is asked for again and again shows what is added to it, and a full one stays as it is', async (t) => {
  const { port } = await start(t, ofItsOwn);
  for (const name of ['a', 'b', 'c']) await add(port, `{"name":"${name}","categoryId":1}`);
  const bodies = async (target: string): Promise<readonly string[]> => {
    const answers: string[] = [];
    for (let times = 0; times < 4; times++) answers.push((await ask(port, 'GET', target)).body);
    return answers;
  };
  const [full = ''] = await bodies('/v1/pets?limit=2');
  assert.ok((await bodies('/v1/pets?limit=3')).every((body) => JSON.parse(body).length === 3));
  assert.ok((await bodies('/v1/pets?limit=4')).every((body) => JSON.parse(body).length === 3));
  await add(port, '{"name":"d","categoryId":1}');
  assert.ok((await bodies('/v1/pets?limit=4')).every((body) => JSON.parse(body).length === 4));
  const three = await ask(port, 'GET', '/v1/pets?limit=3');
  assert.match(header(three, 'Link') ?? '', /after=3>; rel="next"/);
  assert.ok((await bodies('/v1/pets?limit=2')).every((body) => body === full));
});
