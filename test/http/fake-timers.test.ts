/** Tests of a petstore whose host has installed fake timers (C68). */
import assert from 'node:assert/strict';
import { createServer, request, type Server } from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createPetstore, fileStorage, memoryStorage, type PetStorage } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { key } from '../support/fixture.js';
import { folder } from '../support/process.js';
import { petJson, firstPetJson, keyHeaders } from '../support/scenes.js';

/** Sends a request by Node's client, whose timers cannot be replaced. */
async function send(
  port: number,
  method: string,
  path: string,
  body = '',
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number; readonly text: string; readonly date: string }> {
  const sent = request({
    port,
    host: '127.0.0.1',
    method,
    path,
    agent: false,
    headers: { ...keyHeaders, ...headers },
  }).end(body);
  const [response] = await once(sent, 'response');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, text, date: response.headers.date };
}

/**
 * Replaces all timers of the process, and the other globals that Sinon, Vitest and Jest replace.
 */
function installFakes(t: TestContext): void {
  t.mock.timers.enable();
  t.mock.method(globalThis, 'queueMicrotask', () => undefined);
  t.mock.getter(globalThis, 'performance', () => ({ now: () => 0 }));
}

const storages: Readonly<Record<string, (t: TestContext) => Promise<PetStorage>>> = {
  memory: async () => memoryStorage(),
  file: (t) => fileStorage(join(folder(t), 'pets.jsonl')),
};

for (const [name, open] of Object.entries(storages))
  test(`C68 serves and closes under fake timers, from a storage in ${name}`, async (t) => {
    const realYear = new Date().getUTCFullYear();
    const storage = await open(t);
    installFakes(t);
    const petstore = createPetstore({ keys: [key], storage, plugins: [faultsPlugin()] });
    const { port } = await petstore.listen({ port: 0 });

    const created = await send(port, 'POST', '/v1/pets', petJson);
    assert.deepEqual([created.status, created.text], [201, firstPetJson]);
    assert.ok(Number(/ (\d{4}) /.exec(created.date)?.[1]) >= realYear, created.date);
    const late = await send(port, 'GET', '/v1/pets/1', '', { 'Petstore-Fault': 'delay=20' });
    assert.deepEqual([late.status, late.text], [200, firstPetJson]);
    assert.equal((await send(port, 'POST', '/v1/pets', 'x'.repeat(70_000))).status, 413);

    const host: Server = createServer(petstore.handler).listen(0, '127.0.0.1');
    await once(host, 'listening');
    const hostPort = Number(Object(host.address()).port);
    assert.equal((await send(hostPort, 'POST', '/v1/pets', petJson)).status, 201);
    // The server goes on reading the body of a rejected request for a while.
    assert.equal((await send(hostPort, 'POST', '/none', 'x'.repeat(100_000))).status, 404);
    assert.equal((await petstore.fetch('http://a/v1/pets', { headers: keyHeaders })).status, 200);

    await petstore.close();
    await once(host.close(), 'close');
  });
