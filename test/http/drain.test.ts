/** Draining: `/readyz` says no, and everything else goes on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import '../support/built.js';
import { createPetstore } from '../../dist/index.js';
import { atEnd } from '../support/at-end.js';

test('C48: once it drains /readyz is 503 with Retry-After, and all else is answered as before', async (t) => {
  const petstore = createPetstore({ keys: ['key'] });
  atEnd(t, () => petstore.close());
  const { url } = await petstore.listen({ port: 0 });
  const get = (path: string): Promise<Response> =>
    fetch(url + path, { headers: { Authorization: 'Bearer key' } });
  assert.equal((await get('/readyz')).status, 200);
  const { drain } = petstore;
  drain();
  drain();
  const refused = await get('/readyz');
  assert.equal(refused.status, 503);
  assert.match(refused.headers.get('Retry-After') ?? '', /^[123]$/);
  for (const path of ['/healthz', '/v1/pets']) assert.equal((await get(path)).status, 200, path);
  const headers = { Authorization: 'Bearer key', 'Content-Type': 'application/json' };
  const added = await fetch(`${url}/v1/pets`, {
    method: 'POST',
    headers,
    body: '{"name":"a","categoryId":1}',
  });
  assert.equal(added.status, 201);
});
