// Tests that openapi-backend accepts the document in strict mode, and recognises its operations.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OpenAPIBackend, type Document } from 'openapi-backend';
import { documentText } from './scene.js';

test('openapi-backend accepts the document and finds the operation of a request', async () => {
  const definition: Document = JSON.parse(await documentText());
  const api = await new OpenAPIBackend({ definition, strict: true, quick: false }).init();
  const match = (method: string, path: string): string | undefined =>
    api.matchOperation({ method, path, headers: {} })?.operationId;
  assert.equal(match('GET', '/pets'), 'listPets');
  assert.equal(match('POST', '/store/orders'), 'placeOrder');
});
