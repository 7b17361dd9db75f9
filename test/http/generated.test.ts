/**
 * Thousands of damaged requests: principles P1 to P5 hold for each, and nobody's damage touches a
 * neighbour.
 */
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { assertCommonHeaders, assertError, Client, type Answer } from '../support/client.js';
import { bytesOf, key, start, stored, type Running } from '../support/fixture.js';

const body = '{"name":"Rex","categoryId":5,"status":"sold"}';
const valid = bytesOf('POST', '/v1/pets?limit=5', {
  headers: ['Content-Type: application/json'],
  body,
});
const codes: Readonly<Record<number, readonly string[]>> = {
  400: ['bad_request', 'invalid_parameter', 'invalid_json', 'invalid_body'],
  401: ['unauthorized'],
  404: ['not_found'],
  405: ['method_not_allowed'],
  408: ['request_timeout'],
  413: ['content_too_large'],
  415: ['unsupported_media_type'],
  417: ['expectation_failed'],
  431: ['headers_too_large'],
  501: ['not_implemented'],
};

/** P2, P3 and P5 for one answer. */
function assertSound(answer: Answer): void {
  if (answer.status < 300) {
    assertCommonHeaders(answer);
    return;
  }
  const known = codes[answer.status] ?? assert.fail(`status ${answer.status}: ${answer.body}`);
  const { code } = JSON.parse(answer.body);
  assert.ok(known.includes(code), `${answer.status} ${code}`);
  assertError(answer, answer.status, code);
}

/** Sends bytes, closes the sending side, and takes all answers up to the end. */
async function answersTo(
  port: number,
  bytes: string,
  how: 'whole' | 'half',
): Promise<readonly Answer[]> {
  const client = (await Client.connect(port)).send(bytes);
  if (how === 'half') client.half();
  const answers: Answer[] = [];
  try {
    for (;;) {
      // HEAD is the one method whose answers look otherwise, and no damage here makes one.
      answers.push(await client.answer('POST'));
      if (answers.at(-1)?.headers.get('connection')?.includes('close')) break;
      if (how === 'whole') break;
    }
  } catch (error) {
    if (!client.ended || client.rest !== '') throw error;
  } finally {
    client.destroy();
  }
  return answers;
}

/** Runs jobs, so many at a time. */
async function inParallel<Job>(
  jobs: readonly Job[],
  width: number,
  run: (job: Job) => Promise<void>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (;;) {
        const job = jobs[next++];
        if (job === undefined) return;
        await run(job);
      }
    }),
  );
}

/**
 * Each job's damage is answered soundly, something is stored only by a 201, and the next good
 * request works.
 */
async function hold(
  running: Running,
  damaged: readonly string[],
  prefix = '',
): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  let created = (await stored(running)).length;
  const before = created;
  await inParallel(damaged, 24, async (bytes) => {
    try {
      const answers = await answersTo(running.port, prefix + bytes, 'half');
      assert.ok(answers.length > 0, 'there is always an answer');
      if (prefix !== '')
        assert.equal(answers[0]?.status, 201, 'the good request in front keeps its answer');
      for (const answer of answers) {
        assertSound(answer);
        if (answer.status === 201) created++;
        counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1);
      }
    } catch (error) {
      throw new Error(JSON.stringify(bytes), { cause: error });
    }
  });
  assert.equal((await stored(running)).length, created, 'stored only if answered 201');
  assert.ok(created >= before);
  assert.equal((await answersTo(running.port, valid, 'whole'))[0]?.status, 201);
  return counts;
}

const replacements = ['\0', '\n', '\r', ' ', ':', 'x', '\x80', '0'];
const replaced = [...valid].flatMap((own, at) =>
  replacements
    .filter((byte) => byte !== own)
    .map((byte) => valid.slice(0, at) + byte + valid.slice(at + 1)),
);

test('P1–P5 each byte of a valid request replaced by eight others', async (t) => {
  const counts = await hold(await start(t), replaced);
  assert.ok(
    (counts.get(400) ?? 0) > 500 && (counts.get(201) ?? 0) > 100 && (counts.get(401) ?? 0) > 50,
    [...counts].join(' '),
  );
});

test('C52 P1–P5 the same behind a good request in the same packet, whose answer never changes', async (t) => {
  await hold(
    await start(t),
    replaced.filter((_, index) => index % 3 === 0),
    valid,
  );
});

test('C53 P1–P5 a valid request cut at each byte, then half-closed', async (t) => {
  const running = await start(t);
  const chunked = bytesOf('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] }).concat(
    `2d\r\n${body}\r\n0\r\nX: y\r\n\r\n`,
  );
  const cut = [valid, chunked].flatMap((bytes) =>
    [...bytes].flatMap((_, at) => (at === 0 ? [] : [bytes.slice(0, at)])),
  );
  const counts = await hold(running, cut);
  assert.deepEqual([...counts.keys()], [400], 'half a request is never anything but 400');
});

test('P1–P5 each byte left out, each byte twice, and every byte value in places that matter', async (t) => {
  const out = [...valid].map((_, at) => valid.slice(0, at) + valid.slice(at + 1));
  const twice = [...valid].map((byte, at) => valid.slice(0, at) + byte + valid.slice(at));
  const places = [
    'POST',
    '/v1',
    'HTTP',
    '1.1\r',
    'Host',
    'petstore',
    'Bearer',
    'Content-Length',
    '{"name',
  ].map((text) => valid.indexOf(text));
  const bytes = places.flatMap((at) =>
    Array.from(
      { length: 256 },
      (_, code) => valid.slice(0, at) + String.fromCharCode(code) + valid.slice(at),
    ),
  );
  await hold(await start(t), [...out, ...twice, ...bytes]);
});

test('P1 a request within the specification gets only its statuses, over generated requests', async (t) => {
  const running = await start(t);
  const pets = fc.record(
    {
      name: fc.string({ unit: 'grapheme', maxLength: 20 }),
      categoryId: fc.maxSafeInteger(),
      status: fc.constantFrom('available', 'pending', 'sold'),
    },
    { requiredKeys: ['name', 'categoryId'] },
  );
  const queries = fc.record(
    {
      limit: fc.integer({ min: 1, max: 100 }),
      status: fc.constantFrom('available', 'pending', 'sold'),
    },
    { requiredKeys: [] },
  );
  const request = fc.oneof(
    queries.map((query) => ({
      method: 'GET',
      target: `/v1/pets?${new URLSearchParams(Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])).toString()}`,
      allowed: [200],
      text: undefined,
    })),
    pets.map((pet) => ({
      method: 'POST',
      target: '/v1/pets',
      allowed: [201],
      text: JSON.stringify(pet),
    })),
    fc.jsonValue().map((value) => ({
      method: 'POST',
      target: '/v1/pets',
      allowed: [400],
      text: JSON.stringify({ categoryId: value, nome: value }),
    })),
    fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map((id) => ({
      method: 'GET',
      target: `/v1/pets/${id}`,
      allowed: [200, 404],
      text: undefined,
    })),
  );
  const jobs = fc.sample(fc.tuple(request, fc.boolean()), { numRuns: 1_000, seed: 42 });
  await inParallel(jobs, 16, async ([{ method, target, allowed, text }, hasKey]) => {
    const words = { authorization: hasKey ? `Bearer ${key}` : null };
    const bytes = bytesOf(
      method,
      target,
      text === undefined ? words : { ...words, body: Buffer.from(text).toString('latin1') },
    );
    const [answer] = await answersTo(running.port, bytes, 'whole');
    assert.ok(
      answer !== undefined && (hasKey ? allowed : [401]).includes(answer.status),
      `${method} ${target} ${text}: ${answer?.status} ${answer?.body}`,
    );
    assertSound(answer);
  });
});

test('P5 garbage in any mix of HTTP’s own pieces never breaks the server', async (t) => {
  const running = await start(t);
  const piece = fc.oneof(
    fc.constantFrom(
      'GET ',
      'POST ',
      '/v1/pets',
      '/v1/pets/1',
      ' HTTP/1.1\r\n',
      ' HTTP/1.0\r\n',
      '\r\n',
      '\r\n\r\n',
      'Host: a\r\n',
      `Authorization: Bearer ${key}\r\n`,
      'Content-Length: 3\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Expect: 100-continue\r\n',
      'Connection: close\r\n',
      'Connection: keep-alive\r\n',
      'Upgrade: x\r\n',
      '0\r\n\r\n',
      '3\r\nabc\r\n',
      'CONNECT a:1',
      'OPTIONS *',
      '?limit=1',
      '%zz',
      ':',
      ' ',
      '\0',
    ),
    fc.string({ unit: 'binary-ascii', maxLength: 4 }),
    fc.constantFrom(bytesOf('GET', '/v1/pets'), valid),
  );
  const texts = fc
    .sample(fc.array(piece, { minLength: 1, maxLength: 14 }), { numRuns: 1_500, seed: 7 })
    .map((pieces) => pieces.join(''));
  await inParallel(texts, 24, async (bytes) => {
    const client = (await Client.connect(running.port)).send(bytes).half();
    try {
      await client.answer('HEAD');
    } catch (error) {
      assert.ok(client.ended && client.rest === '', `${JSON.stringify(bytes)}: ${String(error)}`);
    } finally {
      client.destroy();
    }
  });
  assert.equal((await answersTo(running.port, valid, 'whole'))[0]?.status, 201);
});
