// Tests the storage file of a process: kill -9, a second process, torn tails and damage (F1 to F4).
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { describe } from 'node:test';

import { SerialClient } from '../support/client.js';
import { requestBytes } from '../support/fixture.js';
import { apiKey, type StartedServer } from '../support/process.js';
import { commitOf } from '../storage/commit-line.js';
import { petLinesIn } from './copy.js';
import { until } from '../support/waiting.js';
import { testInFolder } from '../support/working-folder.js';

const authorization = `Bearer ${apiKey}`;
const petsFile = 'data/pets.jsonl';
/** Without coverage, which a killed process would not write, and which costs a fifth of the time. */
const killed = { NODE_V8_COVERAGE: '' };

/** Adds pets concurrently until the server is killed. Returns the body of each 201. */
async function addUntilGone(server: StartedServer, prefix: string): Promise<readonly string[]> {
  const bodies: string[] = [];
  const adder = async (name: string): Promise<void> => {
    const caller = new SerialClient(server.port);
    for (let count = 0; ; count++) {
      const body = JSON.stringify({ name: `${name}-${count}`, categoryId: 1 });
      const response = await caller.send(requestBytes('POST', '/v1/pets', { authorization, body }));
      if (response === undefined) return;
      if (response.status === 201) bodies.push(response.body);
    }
  };
  const adders = Array.from({ length: 16 }, (_, index) => adder(`${prefix}-${index}`));
  await until('some pets', () => bodies.length > 40);
  server.signal('SIGKILL');
  await Promise.all(adders);
  return bodies;
}

describe('the storage file', { concurrency: 4 }, () => {
  testInFolder(
    'F1 keeps each acknowledged pet, byte for byte, after kill -9 while pets are added',
    async (here) => {
      const bodies: string[] = [];
      for (let round = 0; round < 3; round++) {
        const server = await here.start('', killed);
        assert.ok(Number((await server.waitForLog('listening'))['pets']) >= bodies.length);
        bodies.push(...(await addUntilGone(server, `round${round}`)));
      }
      const server = await here.start();
      const lines = new Set(here.read(petsFile).split('\n'));
      for (const body of bodies) assert.ok(lines.has(body), body);
      const ids = bodies.map((body) => JSON.parse(body).id);
      assert.equal(new Set(ids).size, ids.length);
      const last = bodies.at(-1) ?? '';
      assert.equal(await server.text(`/v1/pets/${JSON.parse(last).id}`), last);
    },
  );

  testInFolder(
    'F1 keeps exactly one pet for each idempotency key after kill -9 during retries',
    async (here) => {
      const keys = Array.from({ length: 100 }, (_, index) => `order-${index}`);
      const bodies = new Map<string, string>();
      const tally = { repeats: 0, inFlight: 0 };
      // All retriers send the same keys at about the same time, in each round, until each retrier
      // has a 201 for each key.
      const retrier = async (server: StartedServer): Promise<void> => {
        const caller = new SerialClient(server.port);
        for (const idempotencyKey of keys) {
          const headers = [`Idempotency-Key: ${idempotencyKey}`];
          const body = JSON.stringify({ name: idempotencyKey, categoryId: 1 });
          const bytes = requestBytes('POST', '/v1/pets', { authorization, headers, body });
          for (let isAdded = false; !isAdded; ) {
            const response = await caller.send(bytes);
            if (response === undefined) return;
            isAdded = response.status === 201;
            if (isAdded) {
              if (bodies.has(idempotencyKey)) tally.repeats++;
              assert.equal(response.body, bodies.get(idempotencyKey) ?? response.body);
              bodies.set(idempotencyKey, response.body);
            } else {
              assert.equal(response.status, 409, response.body);
              tally.inFlight++;
            }
          }
        }
        caller.end();
      };
      for (let round = 1; round <= 4; round++) {
        const server = await here.start('', killed);
        const retrying = Promise.all(Array.from({ length: 6 }, () => retrier(server)));
        if (round < 4) {
          await until('some more keys', () => bodies.size > round * 20);
          server.signal('SIGKILL');
        }
        await retrying;
        await server.end();
      }
      assert.ok(tally.repeats > keys.length && tally.inFlight > 0, JSON.stringify(tally));
      assert.equal(bodies.size, keys.length);
      await here.prints(
        `check ${petsFile}`,
        /is sound\n {2}pets {5}100 .*\n(.*\n)* {2}keys {5}100 idempotency keys\n/,
      );
      assert.deepEqual(petLinesIn(here.at(petsFile)).toSorted(), [...bodies.values()].toSorted());
    },
  );

  testInFolder(
    'F1 writes the pets of a batch as in responses, then a commit with offset and CRC-32',
    async (here) => {
      const server = await here.start();
      const body = await (await server.add('Señor Patas')).text();
      await server.end();
      const line = `${body}\n`;
      assert.equal(here.read(petsFile), `${line}${commitOf(Buffer.from(line), 0)}`);
    },
  );

  testInFolder('F2 moves a torn tail to a file next to it and logs a warning', async (here) => {
    const first = await here.start();
    await first.add('Rex');
    await first.end();
    appendFileSync(here.at(petsFile), '{"id":2,"na');
    const second = await here.start();
    assert.equal((await second.waitForLog('listening'))['pets'], 1);
    assert.equal(second.log[0]?.['level'], 'warn');
    assert.match(here.names('data').join(), /pets\.jsonl\.torn-/);
  });

  testInFolder(
    'F3 exits with 3 for a damaged file, names line and byte, and changes nothing',
    async (here) => {
      const server = await here.start();
      await server.add('Rex');
      await server.end();
      const damaged = here.read(petsFile).replace('Rex', 'Rox');
      here.write(petsFile, damaged);
      const message =
        /pets\.jsonl line 2, byte 37: .*: see `node dist\/server\.js check data\/pets\.jsonl`$/m;
      here.write('empty', '');
      for (const line of [
        '',
        'import empty',
        `copy --from file:${petsFile} --to file:copy`,
        `copy --from file:empty --to file:${petsFile}`,
      ])
        await here.refuses(line, 3, message);
      assert.equal(here.read(petsFile), damaged);
      assert.deepEqual(here.names('data'), ['pets.jsonl']);
    },
  );

  testInFolder(
    'F4 F7 a second process exits with 3 and names the pid of the owner, until the owner is killed',
    { 'more.jsonl': '{"name":"x","categoryId":1}\n' },
    async (here) => {
      const owner = await here.start();
      const message = new RegExp(`pets\\.jsonl is in use by process ${owner.child.pid}\\b`);
      for (const line of ['', 'import more.jsonl', `--port ${owner.port}`])
        await here.refuses(line, 3, message);
      assert.equal((await owner.add('Rex')).status, 201);
      await owner.end('SIGKILL');
      const next = await here.start();
      assert.equal((await next.waitForLog('listening'))['pets'], 1);
    },
  );
});
