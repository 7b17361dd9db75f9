/** The clock of the deprecated operation: what C33 to C35 say at one moment, the suite says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { assertError, Client, header } from '../support/client.js';
import { add, ask, bytesOf, start } from '../support/fixture.js';

const lastMoment = Date.UTC(2030, 11, 6) - 1;

test('C35 from 6 December 2030 on the route is gone without a restart, and comes back with its clock', async (t) => {
  let now = lastMoment;
  const { port } = await start(t, { clock: () => now });
  const documented = async (): Promise<readonly string[]> =>
    Object.keys(JSON.parse((await ask(port, 'GET', '/openapi.json')).body).paths);
  await add(port, '{"name":"a","categoryId":1}');
  const client = (await Client.connect(port)).send(bytesOf('GET', '/v1/pets/1'));
  atEnd(t, () => client.destroy());
  assert.equal((await client.answer()).status, 200);
  assert.deepEqual(await documented(), ['/pets', '/pets/{petId}']);

  now = lastMoment + 1;
  client.send(bytesOf('GET', '/v1/pets/1'));
  assert.match(assertError(await client.answer(), 404, 'not_found'), /GET \/v1\/pets\b/);
  const words = { body: '{"name":"b","categoryId":1}' };
  assert.equal(header(await ask(port, 'POST', '/v1/pets', words), 'Location'), undefined);
  assert.deepEqual(await documented(), ['/pets']);

  now = lastMoment;
  assert.equal((await ask(port, 'GET', '/v1/pets/2')).status, 200);
  assert.deepEqual(await documented(), ['/pets', '/pets/{petId}']);
});
