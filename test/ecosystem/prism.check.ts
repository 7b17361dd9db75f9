// Tests requests and responses by Prism, a proxy that checks both against the OpenAPI document.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freePort, root } from '../support/process.js';
import { documentFile, key, npxArgs, petstoreOf, program, run } from './scene.js';
import { until } from '../support/waiting.js';

interface Words {
  readonly body?: string;
  readonly authorization?: string | null;
  readonly type?: string;
}

type SentRequest = readonly [status: number, method: string, path: string, words?: Words];

const session: readonly SentRequest[] = [
  [200, 'GET', '/pets'],
  [201, 'POST', '/pets', { body: '{"name":"Rex 🐕","categoryId":5,"status":"available"}' }],
  [201, 'POST', '/pets', { body: '{"name":"","categoryId":-9007199254740991,"more":[null]}' }],
  [
    201,
    'POST',
    '/pets',
    {
      body: '{"name":"Tom","categoryId":7,"status":"sold"}',
      type: 'application/json; charset=utf-8',
    },
  ],
  [200, 'GET', '/pets?limit=1&after=1'],
  [200, 'GET', '/pets?status=sold'],
  [200, 'GET', '/pets/3'],
  [404, 'GET', '/pets/4'],
  [401, 'GET', '/pets', { authorization: 'Bearer no' }],
  [401, 'POST', '/pets', { authorization: 'Bearer no', body: '{"name":"a","categoryId":1}' }],
  [401, 'GET', '/pets/1', { authorization: 'Bearer no' }],
  [413, 'POST', '/pets', { body: JSON.stringify({ name: 'x'.repeat(70_000), categoryId: 1 }) }],
  [201, 'POST', '/store/orders', { body: '{"petId":1,"quantity":2}' }],
  [200, 'GET', '/store/orders?status=placed&limit=5'],
];

/** Requests that Prism rejects. */
const wrong: readonly SentRequest[] = [
  [400, 'GET', '/pets?limit=101'],
  [400, 'GET', '/pets?status=lost'],
  [400, 'POST', '/pets', { body: '{"name":1}' }],
  [401, 'GET', '/pets', { authorization: null }],
  [404, 'GET', '/pets/abc'],
  [415, 'POST', '/pets', { body: 'name=Rex', type: 'application/x-www-form-urlencoded' }],
  [400, 'POST', '/store/orders', { body: '{"petId":1,"quantity":0}' }],
];

test('Prism reports no violation in a session, and blames only the request if it is malformed', async (t) => {
  const { url } = await petstoreOf(t).listen({ port: 0 });
  const port = await freePort();
  // npx downloads Prism at its first use, which may take long.
  await run(t, root, 'npx', ...npxArgs('prism', '--version'));
  const prism = program(
    t,
    root,
    'npx',
    ...npxArgs('prism', 'proxy', '--port', port, await documentFile(t), `${url}/v1`),
  );
  await until('Prism', () => prism.output.includes('is listening'));

  const violations = async ([
    status,
    method,
    path,
    { body, authorization = `Bearer ${key}`, type = 'application/json' } = {},
  ]: SentRequest): Promise<readonly string[]> => {
    const headers: Record<string, string> = {
      ...(authorization !== null && { Authorization: authorization }),
      ...(body !== undefined && { 'Content-Type': type }),
    };
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body }),
    });
    assert.equal(response.status, status, `${method} ${path}: ${await response.text()}`);
    const found: readonly { readonly location: readonly string[]; readonly message: string }[] =
      JSON.parse(response.headers.get('sl-violations') ?? '[]');
    return found.map(({ location, message }) => `${location[0]}: ${message}`);
  };
  for (const request of session) assert.deepEqual(await violations(request), [], request.join(' '));
  for (const request of wrong) {
    const found = await violations(request);
    assert.ok(found.length > 0 && found.every((one) => one.startsWith('request: ')), found.join());
  }
});
