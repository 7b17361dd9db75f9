// Tests the words of faults (C84), their combinations (C85) and shares (C86).
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { json, type Plugin } from '../../dist/index.js';
import { faultsPlugin, faultWords } from '../../dist/plugins/faults.js';
import { newCertificate } from '../support/certificate.js';
import { patienceMs } from '../support/waiting.js';
import { assertError, Client, header } from '../support/client.js';
import { requestBytes, sendRequest, start } from '../support/fixture.js';
import {
  everyTransport,
  firstPetJson,
  keyHeaders,
  petJson,
  routePlugin,
  startLogged,
} from '../support/scenes.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

const startFaulty = (t: TestContext) => start(t, { plugins: [faultsPlugin()] });
const get = (port: number, fault: string, target = '/v1/pets') =>
  sendRequest(port, 'GET', target, { headers: [`Petstore-Fault: ${fault}`] });
const post = (port: number, fault: string) =>
  sendRequest(port, 'POST', '/v1/pets', { body: petJson, headers: [`Petstore-Fault: ${fault}`] });
const setRules = (port: number, body: object) =>
  sendRequest(port, 'PUT', '/v1/faults', { body: JSON.stringify(body) });

test('C84 each word is in the contract as the table has it, and its example is a fault', async (t) => {
  const { port } = await startFaulty(t);
  const contract = readFileSync(join(root, 'docs/contract.md'), 'utf8');
  for (const { syntax, about, example } of faultWords) {
    assert.ok(contract.includes(`| \`${syntax}\` | ${about} | \`${example}\` |`), syntax);
    assert.equal((await setRules(port, { rules: [{ fault: example }] })).status, 200, example);
  }
});

test('C84 a status has the Error body and the headers of a real response', async (t) => {
  const { port } = await startFaulty(t);
  for (const [status, code, name, value] of [
    [401, 'unauthorized', 'WWW-Authenticate', 'Bearer realm="petstore", error="invalid_token"'],
    [403, 'forbidden', 'Retry-After', undefined],
    [404, 'not_found', 'Retry-After', undefined],
    [409, 'idempotency_in_flight', 'Retry-After', '1'],
    [429, 'too_many_requests', 'Retry-After', '1'],
    [502, 'bad_gateway', 'Retry-After', undefined],
  ] as const) {
    const response = await get(port, `status=${status}`);
    assertError(response, status, code);
    assert.equal(header(response, name), value, `${status}`);
  }
});

test('C84 html sends an error page with the status, and 503 without one', async (t) => {
  const { port } = await startFaulty(t);
  for (const [fault, title] of [
    ['status=502,html', '502 Bad Gateway'],
    ['html,status=401', '401 Unauthorized'],
    ['html', '503 Service Unavailable'],
    ['html,after', '201 Created'],
  ] as const) {
    const response = await post(port, fault);
    assert.equal(response.status, Number(title.slice(0, 3)), fault);
    assert.equal(header(response, 'Content-Type'), 'text/html');
    assert.equal(
      response.body,
      `<html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>\n`,
    );
  }
});

test('C84 retry-after sets seconds, a date after the petstore’s clock, or no header', async (t) => {
  const clock = () => Date.UTC(2030, 0, 1, 0, 0, 0, 999);
  const { port } = await start(t, { plugins: [faultsPlugin()], clock });
  for (const [fault, expected] of [
    ['status=503,retry-after=30', '30'],
    ['retry-after=0,status=502', '0'],
    ['status=429,retry-after=86400', '86400'],
    ['status=429,retry-after=none', undefined],
    ['html,retry-after=none', undefined],
    ['status=503,html,retry-after=7', '7'],
    ['status=503,retry-after=date', 'Tue, 01 Jan 2030 00:00:02 GMT'],
  ] as const)
    assert.equal(header(await get(port, fault), 'Retry-After'), expected, fault);
});

/** Sends a request, and returns the bytes until the connection ends, and how it ends. */
async function readToEnd(to: number | Client, fault: string, method = 'GET', body = '') {
  const parts = { headers: [`Petstore-Fault: ${fault}`], ...(body === '' ? {} : { body }) };
  const client = typeof to === 'number' ? await Client.connect(to) : to;
  client.send(requestBytes(method, '/v1/pets', parts));
  await client.ends(patienceMs);
  assert.ok(client.hasEnded, `the connection has not ended: ${client.received}`);
  return { text: client.received, failure: client.failure };
}

/** Opens a TLS connection, and accepts any certificate. */
async function connectSecurely(port: number): Promise<Client> {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  return new Client(socket);
}

for (const nodeInterface of ['auto', 'documented'] as const)
  test(`C62 drop sends nothing, and truncate half a body, by HTTP and HTTPS (${nodeInterface})`, async (t) => {
    const { petstore, lines } = await startLogged(t, { plugins: [faultsPlugin()] });
    const plain = await petstore.listen({ port: 0, nodeInterface });
    const secure = await petstore.listen({ port: 0, nodeInterface, tls: newCertificate() });
    // The plugin logs that it is on.
    lines.splice(0);
    for (const connect of [() => Client.connect(plain.port), () => connectSecurely(secure.port)]) {
      assert.equal((await readToEnd(await connect(), 'drop')).text, '');
      const { text } = await readToEnd(await connect(), 'truncate,after', 'POST', petJson);
      assert.match(text, /^HTTP\/1\.1 201 /);
      assert.equal(text.split('\r\n\r\n')[1], firstPetJson.slice(0, firstPetJson.length / 2));
      await petstore.storage.reset?.();
    }
    // The server goes on, and has met no error.
    await (await connectSecurely(secure.port)).send(requestBytes('GET', '/v1/pets')).expect(200);
    assert.deepEqual(lines, []);
  });

for (const nodeInterface of ['auto', 'documented'] as const)
  test(`C62 C84 truncate,end ends the connection cleanly after half of the body (${nodeInterface})`, async (t) => {
    const { petstore } = await startFaulty(t);
    const { port } = await petstore.listen({ port: 0, nodeInterface });
    const { text, failure } = await readToEnd(port, 'truncate,end,after', 'POST', petJson);
    assert.equal(failure, undefined);
    assert.match(
      text,
      new RegExp(`^HTTP/1.1 201 .*\r\nContent-Length: ${firstPetJson.length}\r\n`, 's'),
    );
    assert.equal(text.split('\r\n\r\n')[1], firstPetJson.slice(0, firstPetJson.length / 2));
    const before = await readToEnd(port, 'truncate,end');
    assert.match(before.text, /^HTTP\/1.1 503 /);
    assert.equal(before.failure, undefined);
    assert.match(String((await readToEnd(port, 'truncate')).failure), /ECONNRESET/);
    // HEAD has no body, so nothing of its response is missing.
    assert.match((await readToEnd(port, 'truncate,end,after', 'HEAD')).text, /\r\n\r\n$/);
  });

test('C62 C84 truncate,end under `handler` ends the connection in the body', async (t) => {
  const [, byHandler] = await everyTransport(t, await startFaulty(t));
  const response = await byHandler?.('/v1/pets', {
    headers: { ...keyHeaders, 'Petstore-Fault': 'truncate,end,after' },
  });
  assert.equal(response?.status, 200);
  await assert.rejects(response.text(), /terminated/);
});

test('C84 extra and newstatus change each pet of a response, and not the store', async (t) => {
  const { port } = await startFaulty(t);
  const extra = ',"extra":"of no schema"';
  const status = ',"status":"hibernating"';
  const pet = (end: string) => `{"id":1,"name":"a","categoryId":1${end}}`;
  assert.equal((await post(port, 'extra')).body, pet(extra));
  assert.equal((await post(port, 'newstatus')).body, pet(status).replace('1', '2'));
  for (const [fault, target, expected] of [
    ['extra,newstatus', '/v1/pets?limit=1', `[${pet(extra + status)}]`],
    ['extra', '/v1/pets/1', pet(extra)],
    ['newstatus,delay=1', '/v1/pets/1', pet(status)],
    ['extra,delay=1,within', '/v1/pets/1', pet(extra)],
    ['extra', '/v1/pets?after=2', '[]'],
  ] as const)
    assert.equal((await get(port, fault, target)).body, expected, fault);
  assertError(await get(port, 'extra', '/v1/pets/9'), 404, 'not_found');
  const stored = await sendRequest(port, 'GET', '/v1/pets');
  assert.equal(stored.body, `[${pet('')},${pet('').replace('1', '2')}]`);
});

test('C84 extra changes JSON of a plugin, and no body of another type', async (t) => {
  const plugins = [
    faultsPlugin(),
    routePlugin('/v1/json', () => json({ a: 1 })),
    routePlugin('/v1/response', () => Response.json({ a: 1 })),
    routePlugin('/v1/text', () => new Response('{"a":1}')),
    routePlugin('/v1/empty', () => new Response(null, { status: 204 })),
  ];
  const { port } = await start(t, { plugins });
  for (const [target, expected] of [
    ['/v1/json', '{"a":1,"extra":"of no schema"}'],
    ['/v1/response', '{"a":1,"extra":"of no schema"}'],
    ['/v1/text', '{"a":1}'],
    ['/v1/empty', ''],
  ] as const)
    assert.equal((await get(port, 'extra', target)).body, expected, target);
});

test('C23 C84 extra keeps every digit of an int64 and every character of a name', async (t) => {
  const { port } = await startFaulty(t);
  const text = '{"name":"\\u0000\\"}é😀","categoryId":9223372036854775807,"status":"sold"}';
  const body = Buffer.from(text).toString('latin1');
  const added = await sendRequest(port, 'POST', '/v1/pets', {
    body,
    headers: ['Petstore-Fault: extra,newstatus'],
  });
  const stored = await sendRequest(port, 'GET', '/v1/pets/1');
  assert.equal(added.body, stored.body.replace('"sold"}', '"hibernating","extra":"of no schema"}'));
});

for (const nodeInterface of ['auto', 'documented'] as const)
  test(`C84 dribble sends the head at once and the body in pieces (${nodeInterface})`, async (t) => {
    const { petstore } = await startFaulty(t);
    const { port } = await petstore.listen({ port: 0, nodeInterface });
    const client = await Client.connect(port);
    const from = performance.now();
    const parts = { headers: ['Petstore-Fault: status=503,dribble=400'] };
    client.send(requestBytes('GET', '/v1/pets', parts));
    const response = await client.nextResponse();
    assert.ok(performance.now() - from >= 350, 'the last piece came at the end of the time');
    assertError(response, 503, 'unavailable');
    // The connection stays usable.
    client.send(requestBytes('GET', '/v1/pets'));
    await client.expect('200 []');
  });

test('C84 dribble sends the whole body with its length, by every transport', async (t) => {
  for (const way of await everyTransport(t, await startFaulty(t))) {
    const response = await way('/v1/pets', {
      headers: { ...keyHeaders, 'Petstore-Fault': 'status=503,dribble=50' },
    });
    const text = await response.text();
    assert.equal(text.length, Number(response.headers.get('content-length')));
    assert.equal(JSON.parse(text).code, 'unavailable');
  }
});

test('C53 C84 dribble sends the rest at once when the petstore closes or the store is reset', async (t) => {
  const running = await startFaulty(t);
  const { petstore, port } = running;
  for (const end of ['reset', 'close'])
    for (const way of await everyTransport(t, running)) {
      const from = performance.now();
      // Resolves once the head has arrived.
      const response = await way('/v1/pets', {
        headers: { ...keyHeaders, 'Petstore-Fault': 'status=503,dribble=30000' },
      });
      if (end === 'reset') await sendRequest(port, 'POST', '/v1/reset');
      else void petstore.close();
      assert.equal(JSON.parse(await response.text()).status, 503);
      assert.ok(performance.now() - from < 20_000);
      if (end === 'close') return;
    }
});

test('C53 C84 dribble ends with the reason of the signal if its `fetch` is aborted', async (t) => {
  const ends: boolean[] = [];
  const watching: Plugin = ({ onResponseEnd }) =>
    onResponseEnd(({ isWhole }) => void ends.push(isWhole));
  const { petstore } = await start(t, { plugins: [faultsPlugin(), watching] });
  const aborting = new AbortController();
  const response = await petstore.fetch('http://any/v1/pets', {
    headers: { ...keyHeaders, 'Petstore-Fault': 'status=503,dribble=30000' },
    signal: aborting.signal,
  });
  const reason = new Error('too late');
  aborting.abort(reason);
  await assert.rejects(response.text(), reason);
  assert.deepEqual(ends, [false]);
});

test('C85 a bad fault is 400 and names the word and the nearest right one', async (t) => {
  const { port } = await startFaulty(t);
  await setRules(port, { rules: [{ fault: 'status=500' }] });
  const codes = '401, 403, 404, 408, 409, 429, 500, 502, 503, 504';
  const ms = 'MS is an integer from 0 to 30000';
  for (const [fault, problem] of [
    ['drip', '"drip" is not a word of a fault; the nearest is drop'],
    ['Status=503', '"Status=503" is not a word of a fault; the nearest is status=503'],
    ['dely=100', '"dely=100" is not a word of a fault; the nearest is delay=100'],
    ['dely', '"dely" is not a word of a fault; the nearest is delay=1500'],
    ['extras,after', '"extras" is not a word of a fault; the nearest is extra'],
    [
      'status=418',
      `"status=418" is not valid; the nearest is status=408, because CODE is one of ${codes}`,
    ],
    ['delay=30001', `"delay=30001" is not valid; the nearest is delay=30000, because ${ms}`],
    ['dribble=-5', `"dribble=-5" is not valid; the nearest is dribble=0, because ${ms}`],
    ['delay=1.6', `"delay=1.6" is not valid; the nearest is delay=2, because ${ms}`],
    ['delay=', `delay needs a value, as in delay=1500; ${ms}`],
    ['drop=1', '"drop=1" takes no value; the nearest is drop'],
    ['drop,', 'a word is missing; the nearest is status=503'],
    ['drop,drop', 'drop is given twice; give it once'],
    ['status=503,status=429', 'status is given twice; give it once'],
    ['drop,status=503', 'status=503 and drop exclude each other; leave one of them out'],
    ['html,truncate', 'html and truncate exclude each other; leave one of them out'],
    ['extra,status=500', 'status=500 and extra exclude each other; leave one of them out'],
    ['dribble=1,drop', 'drop and dribble=1 exclude each other; leave one of them out'],
    ['before,after,drop', 'before and after exclude each other; leave one of them out'],
    ['delay=5,within,drop', 'drop and within exclude each other; leave one of them out'],
    ['end', 'end needs truncate; the nearest is truncate,end,after'],
    ['within,extra', 'within needs delay; the nearest is delay=1500,within'],
    [
      'retry-after=5',
      'retry-after=5 needs status or html; the nearest is status=429,retry-after=30',
    ],
    ['before', 'before alone does nothing; the nearest is status=503,before'],
    ['after,share=0.5', 'after,share=0.5 alone does nothing; the nearest is status=503,after'],
    ...['0', '0.0', '1.1', '-0.3', '2', '.1234567', '1e-3', 'NaN', '30%'].map(
      (value) => [`status=503,share=${value}`, `"share=${value}" is not valid`] as const,
    ),
  ] as const) {
    const ofHeader = assertError(await get(port, fault), 400, 'invalid_parameter');
    assert.ok(ofHeader.startsWith(`In Petstore-Fault, ${problem}`), ofHeader);
    const put = await setRules(port, { rules: [{ fault: 'drop', times: 1 }, { fault }] });
    const ofRule = assertError(put, 400, 'invalid_body');
    assert.ok(ofRule.startsWith(`In rules, rule 2 is wrong: in fault, ${problem}`), ofRule);
    assert.throws(() => faultsPlugin({ rules: [{ fault }] }), {
      name: 'TypeError',
      message: /^faultsPlugin: rule 1 is wrong: in fault, /,
    });
  }
  // Nothing was changed.
  assertError(await sendRequest(port, 'GET', '/v1/pets'), 500, 'internal_error');
});

test('C85 a long word is shortened in the message', async (t) => {
  const { port } = await startFaulty(t);
  const message = assertError(await get(port, 'x'.repeat(9_000)), 400, 'invalid_parameter');
  assert.ok(message.length < 150, message);
});

test('C61 C85 a rule after one that meets all of its requests is refused', async (t) => {
  const { port } = await startFaulty(t);
  const all = { fault: 'drop' };
  const post = { method: 'POST', path: '/v1/pets', fault: 'status=503' };
  for (const [rules, number, before] of [
    [[all, post], 2, 1],
    [[{ path: '/v1/pets', fault: 'drop' }, post], 2, 1],
    [[{ ...all, times: 1 }, { method: 'POST', fault: 'drop' }, post], 3, 2],
    [[all, { fault: 'status=503', times: 1 }], 2, 1],
    [[{ fault: 'drop,share=1' }, post], 2, 1],
  ] as const)
    assert.equal(
      assertError(await setRules(port, { rules }), 400, 'invalid_body'),
      `In rules, rule ${number} can never match, because rule ${before} meets all of its requests; ` +
        `put it before rule ${before}, or give that rule times.`,
    );
  for (const rules of [
    [post, all],
    [{ ...all, times: 1 }, post],
    [{ ...all, skip: 1 }, post],
    [{ fault: 'drop,share=0.5' }, post],
    [{ ...all, method: 'GET' }, post],
    [{ ...all, path: '/v1/pets/{petId}' }, post],
    [all, all],
  ])
    assert.equal((await setRules(port, { rules })).status, 200, JSON.stringify(rules));
});

/** Sends requests one after the other, and returns a 1 for each that met the fault. */
async function meetings(port: number, count: number, headers: readonly string[] = []) {
  let met = '';
  for (let index = 0; index < count; index++) {
    const { status } = await sendRequest(port, 'GET', '/v1/pets', { headers });
    met += status === 503 ? '1' : '0';
  }
  return met;
}

test('C86 the same seed and the same requests meet the same faults', async (t) => {
  const { port } = await startFaulty(t);
  const rules = [{ fault: 'status=503,share=0.3' }];
  const met = async (seed?: number) => {
    await setRules(port, { rules, ...(seed === undefined ? {} : { seed }) });
    return meetings(port, 200);
  };
  const first = await met(7);
  const share = first.replaceAll('0', '').length / 200;
  assert.ok(share > 0.15 && share < 0.45, `${share}`);
  assert.equal(await met(7), first);
  assert.notEqual(await met(8), first);
  assert.equal(await met(), await met(0));

  const other = await startFaulty(t);
  await setRules(other.port, { rules, seed: 7 });
  assert.equal(await meetings(other.port, 200), first);
});

test('C86 GET shows the seed and the draws, and PUT of this text changes nothing', async (t) => {
  const { port } = await startFaulty(t);
  const rules = [{ fault: 'status=503,share=0.5', skip: 1, times: 60 }];
  await setRules(port, { rules, seed: 4_294_967_295 });
  const first = await meetings(port, 40);
  await setRules(port, { rules, seed: 4_294_967_295 });
  let again = await meetings(port, 20);
  const { body } = await sendRequest(port, 'GET', '/v1/faults');
  const {
    seed,
    rules: [rule],
  } = JSON.parse(body);
  assert.deepEqual([seed, rule.drawn], [4_294_967_295, 19]);
  const put = await sendRequest(port, 'PUT', '/v1/faults', { body });
  assert.equal(put.body, body);
  again += await meetings(port, 20);
  assert.equal(again, first);

  // After the largest number of draws, the count begins anew, so that PUT still accepts it.
  await setRules(port, { rules: [{ fault: 'status=503,share=.5', drawn: 4_294_967_295 }] });
  assert.equal((await get(port, 'share=1.0,delay=0')).status, 200);
  await get(port, '');
  const { body: last } = await sendRequest(port, 'GET', '/v1/faults');
  assert.equal(JSON.parse(last).rules[0].drawn, 0);
});

test('C86 a share of a header counts the requests with such a header', async (t) => {
  const { port } = await startFaulty(t);
  const headers = ['Petstore-Fault: share=0.5,status=503'];
  await setRules(port, { rules: [], seed: 3 });
  const first = await meetings(port, 40, headers);
  assert.match(first, /1.*0|0.*1/);
  await setRules(port, { rules: [], seed: 3 });
  assert.equal(await meetings(port, 40, headers), first);
});

test('C86 a request that a share spares is left to the next rule', async (t) => {
  const { port } = await startFaulty(t);
  const rules = [{ fault: 'status=503,share=0.5' }, { fault: 'status=502' }];
  await setRules(port, { rules });
  const statuses = new Set<number>();
  for (let index = 0; index < 30; index++)
    statuses.add((await sendRequest(port, 'GET', '/v1/pets')).status);
  assert.deepEqual([...statuses].sort(), [502, 503]);
});

test('C86 a bad seed, and drawn without a share, are refused', async (t) => {
  const { port } = await startFaulty(t);
  for (const seed of [-1, 1.5, 4_294_967_296, '7', null]) {
    const message = assertError(await setRules(port, { rules: [], seed }), 400, 'invalid_body');
    assert.equal(message, 'seed must be an integer from 0 to 4294967295, or be left out.');
    if (typeof seed === 'number')
      assert.throws(() => faultsPlugin({ seed }), { name: 'TypeError', message: /seed must be/ });
  }
  const rules = [{ fault: 'drop', drawn: 1 }];
  assert.match(
    assertError(await setRules(port, { rules }), 400, 'invalid_body'),
    /drawn must be an integer from 0 to 4294967295, only with a share/,
  );
  const misspelt = await setRules(port, { rules: [], sed: 1 });
  assert.equal(
    assertError(misspelt, 400, 'invalid_body'),
    'The member "sed" is unknown; the nearest is seed.',
  );
});
