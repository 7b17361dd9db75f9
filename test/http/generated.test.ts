/**
 * Tests of thousands of damaged requests, against a second implementation of the contract (P1 to
 * P5). They are a part of R8 of the torture, which sends each request in three ways.
 */
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Client } from '../support/client.js';
import { add, requestBytes, key, start, storedPets } from '../support/fixture.js';
import { expectResponse } from '../support/scenes.js';
import { badInputs } from '../torture/cases.js';
import { tryCase, ways } from '../torture/inputs.js';
import { randomOf } from '../torture/random.js';

/** Runs `width` jobs at a time. */
async function inParallel<Job>(
  jobs: readonly Job[],
  width: number,
  run: (job: Job, index: number) => Promise<void>,
): Promise<void> {
  const left = jobs.entries();
  const work = async (): Promise<void> => {
    for (const [index, job] of left) await run(job, index);
  };
  await Promise.all(Array.from({ length: width }, work));
}

test('P1–P5 C42 C52 C53 responds to damaged requests by the contract, and stores only with a 201', async (t) => {
  const running = await start(t);
  const first = await add(running.port, '{"name":"first","categoryId":1}');
  const added = new Map([['1', first]]);
  const statuses = new Map<string, number>();
  const some = badInputs(randomOf(42)).filter((_, index) => index % 8 === 0);
  t.diagnostic(`${some.length} cases`);
  await inParallel(some, 24, async (bytes, index) => {
    // Fewer cases byte by byte, which takes longest.
    const way = index % 16 === 0 ? 'byte by byte' : ways[index % 2 === 0 ? 0 : 2];
    try {
      await tryCase(running.port, bytes, way, added, statuses);
    } catch (error) {
      throw new Error(`${way}: ${JSON.stringify(bytes.slice(0, 3_000))}`, { cause: error });
    }
  });
  assert.ok((statuses.get('400') ?? 0) > 300 && (statuses.get('201') ?? 0) > 300);
  assert.equal((await storedPets(running)).length, added.size);
  await expectResponse(running.port, 'GET /v1/pets/1', `200 ${first}`);
});

test('P5 survives any mixture of fragments of HTTP', async (t) => {
  const running = await start(t);
  const piece = fc.oneof(
    // biome-ignore format: one line for each value would hide the test.
    fc.constantFrom('GET ', 'POST ', '/v1/pets', '/v1/pets/1', ' HTTP/1.1\r\n', ' HTTP/1.0\r\n', '\r\n', '\r\n\r\n', 'Host: a\r\n', `Authorization: Bearer ${key}\r\n`, 'Content-Length: 3\r\n', 'Transfer-Encoding: chunked\r\n', 'Expect: 100-continue\r\n', 'Connection: close\r\n', 'Connection: keep-alive\r\n', 'Upgrade: x\r\n', '0\r\n\r\n', '3\r\nabc\r\n', 'CONNECT a:1', 'OPTIONS *', '?limit=1', '%zz', ':', ' ', '\0'),
    fc.string({ unit: 'binary-ascii', maxLength: 4 }),
    fc.constantFrom(
      requestBytes('GET', '/v1/pets'),
      requestBytes('POST', '/v1/pets', { body: '{}' }),
    ),
  );
  const texts = fc
    .sample(fc.array(piece, { minLength: 1, maxLength: 14 }), { numRuns: 750, seed: 7 })
    .map((pieces) => pieces.join(''));
  await inParallel(texts, 24, async (bytes) => {
    const client = (await Client.connect(running.port)).send(bytes).endSending();
    try {
      await client.nextResponse('HEAD');
    } catch (error) {
      assert.ok(
        client.hasEnded && client.received === '',
        `${JSON.stringify(bytes)}: ${String(error)}`,
      );
    } finally {
      client.destroy();
    }
  });
  await expectResponse(running.port, 'GET /v1/pets', 200);
});
