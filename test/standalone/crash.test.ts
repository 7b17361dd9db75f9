// The storage file seen from outside: kill -9, a second process, torn tails and damage (F1 to F4).
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { describe } from 'node:test';

import { Caller } from '../support/client.js';
import { bytesOf } from '../support/fixture.js';
import { apiKey, type StartedServer } from '../support/process.js';
import { commitOf } from '../storage/commit-line.js';
import { animalsIn } from './copy.js';
import { until } from '../support/waiting.js';
import { testInFolder } from '../support/working-folder.js';

const authorization = `Bearer ${apiKey}`;
const pets = 'data/pets.jsonl';
/** Those that are killed would never write what they measured, and measuring costs a fifth. */
const killed = { NODE_V8_COVERAGE: '' };

/** Adds animals from many sides until the server is gone; answers the body of every 201. */
async function addUntilGone(server: StartedServer, prefix: string): Promise<readonly string[]> {
  const bodies: string[] = [];
  const adder = async (name: string): Promise<void> => {
    const caller = new Caller(server.port);
    for (let count = 0; ; count++) {
      const body = JSON.stringify({ name: `${name}-${count}`, categoryId: 1 });
      const answer = await caller.ask(bytesOf('POST', '/v1/pets', { authorization, body }));
      if (answer === undefined) return;
      if (answer.status === 201) bodies.push(answer.body);
    }
  };
  const adders = Array.from({ length: 16 }, (_, index) => adder(`${prefix}-${index}`));
  await until('some animals', () => bodies.length > 40);
  server.signal('SIGKILL');
  await Promise.all(adders);
  return bodies;
}

describe('the storage file from outside', { concurrency: 4 }, () => {
  testInFolder(
    'F1: after kill -9 in the middle of adding, every animal that was answered 201 is there, byte for byte',
    async (here) => {
      const bodies: string[] = [];
      for (let round = 0; round < 3; round++) {
        const server = await here.start('', killed);
        assert.ok(Number((await server.said('listening'))['pets']) >= bodies.length);
        bodies.push(...(await addUntilGone(server, `round${round}`)));
      }
      const server = await here.start();
      const lines = new Set(here.read(pets).split('\n'));
      for (const body of bodies) assert.ok(lines.has(body), body);
      const ids = bodies.map((body) => JSON.parse(body).id);
      assert.equal(new Set(ids).size, ids.length);
      const last = bodies.at(-1) ?? '';
      assert.equal(await server.text(`/v1/pets/${JSON.parse(last).id}`), last);
    },
  );

  testInFolder(
    'F1: kill -9 among many retries leaves each idempotency key with exactly one animal, across restarts',
    async (here) => {
      const keys = Array.from({ length: 100 }, (_, index) => `order-${index}`);
      const bodies = new Map<string, string>();
      const tally = { repeats: 0, inFlight: 0 };
      // All of them come to the same keys at about the same time, again in every round, until each
      // has a 201 of its own.
      const retrier = async (server: StartedServer): Promise<void> => {
        const caller = new Caller(server.port);
        for (const idempotencyKey of keys) {
          const headers = [`Idempotency-Key: ${idempotencyKey}`];
          const body = JSON.stringify({ name: idempotencyKey, categoryId: 1 });
          const bytes = bytesOf('POST', '/v1/pets', { authorization, headers, body });
          for (let isAdded = false; !isAdded; ) {
            const answer = await caller.ask(bytes);
            if (answer === undefined) return;
            isAdded = answer.status === 201;
            if (isAdded) {
              if (bodies.has(idempotencyKey)) tally.repeats++;
              assert.equal(answer.body, bodies.get(idempotencyKey) ?? answer.body);
              bodies.set(idempotencyKey, answer.body);
            } else {
              assert.equal(answer.status, 409, answer.body);
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
        `check ${pets}`,
        /is sound\n {2}pets {5}100 .*\n(.*\n)* {2}keys {5}100 idempotency keys\n/,
      );
      assert.deepEqual(animalsIn(here.at(pets)).toSorted(), [...bodies.values()].toSorted());
    },
  );

  testInFolder(
    'F1: a batch is lines as they are answered, then a commit with its offset and CRC-32',
    async (here) => {
      const server = await here.start();
      const body = await (await server.add('Señor Patas')).text();
      await server.end();
      const line = `${body}\n`;
      assert.equal(here.read(pets), `${line}${commitOf(Buffer.from(line), 0)}`);
    },
  );

  testInFolder('F2: a torn tail is cut, kept beside the file and said in the log', async (here) => {
    const first = await here.start();
    await first.add('Rex');
    await first.end();
    appendFileSync(here.at(pets), '{"id":2,"na');
    const second = await here.start();
    assert.equal((await second.said('listening'))['pets'], 1);
    assert.equal(second.log[0]?.['level'], 'warn');
    assert.match(here.names('data').join(), /pets\.jsonl\.torn-/);
  });

  testInFolder(
    'F3: damage is refused with exit 3 and file, line and byte, names check, and changes nothing',
    async (here) => {
      const server = await here.start();
      await server.add('Rex');
      await server.end();
      const damaged = here.read(pets).replace('Rex', 'Rox');
      here.write(pets, damaged);
      const mend =
        /pets\.jsonl line 2, byte 37: .*: see `node dist\/server\.js check data\/pets\.jsonl`$/m;
      here.write('empty', '');
      for (const line of [
        '',
        'import empty',
        `copy --from file:${pets} --to file:copy`,
        `copy --from file:empty --to file:${pets}`,
      ])
        await here.refuses(line, 3, mend);
      assert.equal(here.read(pets), damaged);
      assert.deepEqual(here.names('data'), ['pets.jsonl']);
    },
  );

  testInFolder(
    'F4 F7: a second process is refused at once with exit 3 and the pid of the owner, before a port in use; kill -9 frees the file',
    { 'more.jsonl': '{"name":"x","categoryId":1}\n' },
    async (here) => {
      const owner = await here.start();
      const told = new RegExp(`pets\\.jsonl is in use by process ${owner.child.pid}\\b`);
      for (const line of ['', 'import more.jsonl', `--port ${owner.port}`])
        await here.refuses(line, 3, told);
      assert.equal((await owner.add('Rex')).status, 201);
      await owner.end('SIGKILL');
      const next = await here.start();
      assert.equal((await next.said('listening'))['pets'], 1);
    },
  );
});
