/** The contract of adding, C19 to C32, over a socket. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPetstore, parseDraft, petFields, petStatuses } from '../../dist/index.js';
import { assertCommonHeaders, assertError, Client, header } from '../support/client.js';
import { add, ask, bytesOf, start, stored } from '../support/fixture.js';

const nameRule = 'name must be a string';
const categoryRule =
  'categoryId must be an integer from -9223372036854775808 to 9223372036854775807';
const missing = (rule: string): string => rule.replace('must', 'is missing; it must');
const words = petStatuses.map((status) => `"${status}"`).join(', ');
const statusRule = `status must be one of ${words}, or be left out`;

test('C19 a status that is left out stays absent in storage and in every answer', async (t) => {
  const running = await start(t);
  assert.equal(
    await add(running.port, '{"name":"a","categoryId":1}'),
    '{"id":1,"name":"a","categoryId":1}',
  );
  assert.equal(
    (await ask(running.port, 'GET', '/v1/pets/1')).body,
    '{"id":1,"name":"a","categoryId":1}',
  );
  assert.equal(
    (await ask(running.port, 'GET', '/v1/pets')).body,
    '[{"id":1,"name":"a","categoryId":1}]',
  );
  assert.deepEqual(await running.petstore.storage.get(1n), { id: 1n, name: 'a', categoryId: 1n });
});

test('C20 every bad field is named with its rule at once, and nothing is stored', async (t) => {
  const running = await start(t);
  const cases: readonly (readonly [json: string, message: string])[] = [
    ['{}', `${missing(nameRule)}; ${missing(categoryRule)}.`],
    ['{"name":"a"}', `${missing(categoryRule)}.`],
    ['{"categoryId":1}', `${missing(nameRule)}.`],
    ['{"name":null}', `${nameRule}; ${missing(categoryRule)}.`],
    [
      '{"name":null,"categoryId":null,"status":null}',
      `${nameRule}; ${categoryRule}; ${statusRule}.`,
    ],
    ['{"name":1,"categoryId":"1","status":1}', `${nameRule}; ${categoryRule}; ${statusRule}.`],
    [
      '{"name":["a"],"categoryId":[1],"status":["sold"]}',
      `${nameRule}; ${categoryRule}; ${statusRule}.`,
    ],
    ['{"name":{},"categoryId":{},"status":{}}', `${nameRule}; ${categoryRule}; ${statusRule}.`],
    [
      '{"name":true,"categoryId":true,"status":false}',
      `${nameRule}; ${categoryRule}; ${statusRule}.`,
    ],
    ['{"name":"a","categoryId":1,"status":null}', `${statusRule}.`],
    ['{"name":"a","categoryId":1,"status":""}', `${statusRule}.`],
    ['{"name":"a","categoryId":1,"status":"Sold"}', `${statusRule}.`],
    ['{"Name":"a","CategoryId":1}', `${missing(nameRule)}; ${missing(categoryRule)}.`],
  ];
  for (const [body, message] of cases)
    assert.equal(
      assertError(await ask(running.port, 'POST', '/v1/pets', { body }), 400, 'invalid_body'),
      message,
      body,
    );
  for (const body of [
    '[]',
    '[{"name":"a","categoryId":1}]',
    'null',
    'true',
    '1',
    '"{}"',
    ' "a" ',
  ]) {
    assert.equal(
      assertError(await ask(running.port, 'POST', '/v1/pets', { body }), 400, 'invalid_body'),
      'The body must be a JSON object.',
      body,
    );
  }
  assert.deepEqual(await stored(running), []);
});

test('C20 the rule is said in the words of whoever reads the value', () => {
  const said = (message: string) => ({ code: 'invalid_body', message });
  assert.throws(() => parseDraft([], 'The line'), said('The line must be a JSON object.'));
  assert.throws(() => parseDraft([]), said('The body must be a JSON object.'));
});

test('C21 other members are ignored: not stored, not echoed', async (t) => {
  const running = await start(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const more = ['"id":7', '"id":"x"', '"__proto__":{"status":"sold"}', '"constructor":null', '"tags":[{"name":"b"}]', '"":1', '"toString":1', '"Status":"nonsense"', '"stat\\u0075s2":1', '"price":1e400'];
  for (const member of more) {
    const body = await add(running.port, `{${member},"name":"a","categoryId":1}`);
    assert.match(body, /^\{"id":\d+,"name":"a","categoryId":1\}$/);
  }
  const all = (await stored(running)).map((pet) => pet.replace(/^\d+ /, ''));
  assert.deepEqual([...new Set(all)], ['a 1 -']);
  assert.equal(
    (await ask(running.port, 'GET', '/v1/pets/7')).body,
    '{"id":7,"name":"a","categoryId":1}',
  );
});

test('C22 an integer in another spelling is taken and answered in plain digits', async (t) => {
  const { port } = await start(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const spellings: readonly (readonly [string, string])[] = [
    ['1.0', '1'], ['1e2', '100'], ['-0', '0'], ['-0.0e-9', '0'], ['0e999999999', '0'], ['1E+2', '100'], ['10e-1', '1'], ['1.50e1', '15'], ['-1.0', '-1'],
    ['9007199254740993.0', '9007199254740993'], ['92233720368547758.07e2', '9223372036854775807'], ['-9223372036854775808.000', '-9223372036854775808'], ['100000000000000000000e-2', '1000000000000000000'],
  ];
  for (const [spelt, plain] of spellings)
    assert.match(
      await add(port, `{"name":"a","categoryId":${spelt}}`),
      new RegExp(`^\\{"id":\\d+,"name":"a","categoryId":${plain}\\}$`),
      spelt,
    );
});

test('C23 the whole range of int64 is exact in request, storage and answer', async (t) => {
  const { port, petstore } = await start(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const values = ['9223372036854775807', '-9223372036854775808', '9007199254740993', '-9007199254740993', '9007199254740991', '9007199254740992', '999999999999999', '9999999999999999', '0', '-1'];
  for (const [index, value] of values.entries()) {
    const json = await add(port, `{"name":"a","categoryId":${value}}`);
    assert.equal(json, `{"id":${index + 1},"name":"a","categoryId":${value}}`);
    assert.equal((await ask(port, 'GET', `/v1/pets/${index + 1}`)).body, json);
    assert.equal((await petstore.storage.get(BigInt(index + 1)))?.categoryId, BigInt(value));
  }
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

test('C25 a name is any Unicode text, kept to the letter', async (t) => {
  const running = await start(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const names = ['', ' ', '  a  ', '\u0000', 'a\u0000b', '\t\n\r\u001f', '"\\/', '猫', '🐈‍⬛', 'e\u0301', '\u00e9', '\ufeffx', '\uffff\ufffe', '\u2028\u2029', '</script>', 'נמר', '\u{10ffff}', 'x'.repeat(60_000), "'; DROP TABLE pets;--"];
  for (const [index, name] of names.entries()) {
    const json = await add(running.port, JSON.stringify({ name, categoryId: 1 }));
    assert.equal(
      json,
      Buffer.from(`{"id":${index + 1},"name":${JSON.stringify(name)},"categoryId":1}`).toString(
        'latin1',
      ),
    );
    assert.equal((await ask(running.port, 'GET', `/v1/pets/${index + 1}`)).body, json);
  }
  const escaped = await add(
    running.port,
    '{"n\\u0061me":"\\u732b\\ud83d\\udc08\\/","categoryId":1}',
  );
  assert.equal(
    Buffer.from(escaped, 'latin1').toString(),
    `{"id":${names.length + 1},"name":"猫🐈/","categoryId":1}`,
  );
});

test('C26 what is no strict JSON answers 400 invalid_json with the byte offset, and nothing is stored', async (t) => {
  const running = await start(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const cases: readonly (readonly [bytes: string, at: number])[] = [
    ['', 0], [' ', 1], ['{', 1], ['{"name":"a","categoryId":1', 26], ['{"name":"a","categoryId":1}}', 27], ['{"name":"a",}', 12], ['{name:"a"}', 1], ["{'name':'a'}", 1], ['{"a":01}', 6], ['{"a":1.}', 7], ['{"a":.5}', 5], ['{"a":+1}', 5], ['{"a":NaN}', 5], ['{"a":"\n"}', 6], ['{"a":"\\x"}', 6], ['{"a":1}//', 7], ['[1,]', 3], ['undefined', 0], ['tru', 3], ['nulL', 3], ['{"a":"\x80"}', 6], ['{"a":"\xc0\xaf"}', 6], ['{"a":"\xed\xa0\x80"}', 6], ['{"a":"\xf4\x90\x80\x80"}', 6], ['{"a":"\xe7\x8c"}', 6], ['\xff\xfe{\0}\0', 0],
    ['{"a":"\\ud83d"}', 6], ['{"a":"\\udc08\\ud83d"}', 6], ['{"\\ud800":1}', 2], ['{"a":1,"a":1}', 7], ['{"a":1,"\\u0061":2}', 7], ['{"x":[{"b":1,"b":2}]}', 13], ['{"__proto__":1,"__proto__":1}', 15], [`${'['.repeat(65)}${']'.repeat(65)}`, 64], [`{"a":${'['.repeat(64)}${']'.repeat(64)}}`, 68], ['\xef\xbb\xbf', 3], ['\xef\xbb\xbf\xef\xbb\xbf{}', 3], ['\xef\xbb{}', 0], ['\x0b{}', 0], ['\xa0{}', 0],
  ];
  for (const [body, at] of cases) {
    const message = assertError(
      await ask(running.port, 'POST', '/v1/pets', { body }),
      400,
      'invalid_json',
    );
    assert.match(message, new RegExp(` at byte ${at}\\.$`), `${JSON.stringify(body)}: ${message}`);
  }
  for (const headers of [[], ['Content-Type: application/json']]) {
    const bytes = bytesOf('POST', '/v1/pets', { headers });
    const client = (await Client.connect(running.port)).send(bytes);
    assertError(await client.answer('POST'), 400, 'invalid_json');
    client.destroy();
  }
  assert.deepEqual(await stored(running), []);
  await add(running.port, '\ufeff{"name":"bom","categoryId":1}');
  await add(
    running.port,
    ` \t\r\n{"name":"deep","categoryId":1,"x":${'['.repeat(63)}${']'.repeat(63)}} `,
  );
  assert.deepEqual(await stored(running), ['1 bom 1 -', '2 deep 1 -']);
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

test('C27 a body without a Content-Type is taken as JSON', async (t) => {
  const { port } = await start(t);
  assert.equal(
    (await ask(port, 'POST', '/v1/pets', { body: '{"name":"a","categoryId":1}' })).status,
    201,
  );
});

test('C28 another media type, charset or coding answers 415 with Accept, before the body is looked at', async (t) => {
  const running = await start(t);
  const body = '{"name":"a","categoryId":1}';
  const good = [
    'application/json',
    'APPLICATION/JSON',
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json ; charset=utf-8',
    'application/json; profile=x',
    'application/json;',
    'application/json; q="a=b"',
    'application/json; q="a\\"b;charset=x"',
  ];
  for (const type of good)
    assert.equal(
      (await ask(running.port, 'POST', '/v1/pets', { body, headers: [`Content-Type: ${type}`] }))
        .status,
      201,
      type,
    );
  for (const coding of ['identity', 'Identity', 'identity,identity', 'identity , identity'])
    assert.equal(
      (
        await ask(running.port, 'POST', '/v1/pets', {
          body,
          headers: [`Content-Encoding: ${coding}`],
        })
      ).status,
      201,
      coding,
    );

  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const bad = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/jsonx', 'application/merge-patch+json', 'application/problem+json', 'text/json', 'application/*', '*/*', 'json', 'application/json; charset=latin1', 'application/json; charset=utf-16', 'application/json; charset=""', 'application/json; charset=utf-8; charset=latin1', 'application/json, text/plain', 'application/json charset=utf-8', 'application/json; x y', 'application / json'];
  const headers = [
    ...bad.map((type) => `Content-Type: ${type}`),
    ...['gzip', 'br', 'deflate', 'gzip, identity', 'identity, gzip', 'x'].map(
      (coding) => `Content-Encoding: ${coding}`,
    ),
  ];
  const before = await stored(running);
  for (const line of headers) {
    for (const text of [body, 'not json', '']) {
      const answer = await ask(running.port, 'POST', '/v1/pets', { body: text, headers: [line] });
      assertError(answer, 415, 'unsupported_media_type');
      assert.deepEqual([header(answer, 'Accept'), answer.kept], ['application/json', true], line);
    }
  }
  assertError(
    await ask(running.port, 'POST', '/v1/pets', {
      body,
      headers: ['Content-Type: application/json', 'Content-Type: text/plain'],
    }),
    415,
    'unsupported_media_type',
  );
  assert.deepEqual(await stored(running), before);
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

test('C29 a body over the limit answers 413 and closes, declared or streamed, and nothing is stored', async (t) => {
  const running = await start(t);
  const exact = `{"name":"${'x'.repeat(65_536 - 26)}","categoryId":1}`;
  assert.equal(exact.length, 65_536);
  assert.equal((await ask(running.port, 'POST', '/v1/pets', { body: exact })).status, 201);
  const chunked = bytesOf('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] });
  const streams = {
    declared: bytesOf('POST', '/v1/pets', { body: ` ${exact}` }),
    'declared, none of it sent': bytesOf('POST', '/v1/pets', {
      headers: ['Content-Length: 65537'],
    }),
    'declared beyond any size': bytesOf('POST', '/v1/pets', {
      headers: ['Content-Length: 18446744073709551615'],
    }),
    'in one chunk': `${chunked}10001\r\n ${exact}\r\n0\r\n\r\n`,
    'in small chunks': `${chunked}${'100\r\n'.concat(' '.repeat(256), '\r\n').repeat(257)}0\r\n\r\n`,
    'in a chunk that never ends': `${chunked}fffffffff\r\n${' '.repeat(65_537)}`,
  };
  await Promise.all(
    Object.entries(streams).map(async ([how, bytes]) => {
      const client = (await Client.connect(running.port)).send(bytes);
      const answer = await client.answer('POST');
      assert.match(assertError(answer, 413, 'content_too_large'), /65536 bytes/, how);
      assert.equal(header(answer, 'Connection'), 'close', how);
      assert.ok((await client.closed()) < 4_000, how);
      client.destroy();
    }),
  );
  assert.equal((await stored(running)).length, 1);
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

test('C30 an added animal is answered 201, whole and with its Location', async (t) => {
  const { port } = await start(t);
  for (const id of [1, 2]) {
    const answer = await ask(port, 'POST', '/v1/pets', {
      body: '{"status":"sold","categoryId":5,"name":"Rex"}',
    });
    assert.deepEqual(
      [answer.status, answer.body, answer.kept],
      [201, `{"id":${id},"name":"Rex","categoryId":5,"status":"sold"}`, true],
    );
    assert.deepEqual(
      [header(answer, 'Location'), header(answer, 'Content-Type')],
      [`/v1/pets/${id}`, 'application/json'],
    );
    assertCommonHeaders(answer);
    assert.equal((await ask(port, 'GET', header(answer, 'Location') ?? '')).body, answer.body);
  }
});

test('C31 ids are 1, 2, 3 …, also for those who add at once, and refused bodies take none', async (t) => {
  const { port } = await start(t);
  await ask(port, 'POST', '/v1/pets', { body: '{}' });
  const bodies = await Promise.all(
    Array.from({ length: 60 }, () => add(port, '{"name":"a","categoryId":1}')),
  );
  const ids = bodies.map((body): number => JSON.parse(body).id).sort((a, b) => a - b);
  assert.deepEqual(
    ids,
    Array.from({ length: 60 }, (_, index) => index + 1),
  );
});

test('C32 categories that nobody knows and equal names are accepted', async (t) => {
  const running = await start(t);
  for (const categoryId of ['0', '-1', '123456789', '0'])
    await add(running.port, `{"name":"same","categoryId":${categoryId}}`);
  assert.deepEqual(await stored(running), [
    '1 same 0 -',
    '2 same -1 -',
    '3 same 123456789 -',
    '4 same 0 -',
  ]);
});

test('the fields that plugins share are frozen', () => {
  for (const shared of [petFields, ...petFields, ...petFields.map(({ type }) => type)])
    assert.ok(Object.isFrozen(shared));
});
