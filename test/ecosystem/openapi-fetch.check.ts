// Tests the client openapi-fetch with generated types, over a port and over `fetch`. That this file
// compiles is half of the test, because the types describe the requests and the responses.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import createClient, { type Client } from 'openapi-fetch';
import type { paths } from './generated/petstore.js';
import { key, petstoreOf } from './scene.js';

const headers = { Authorization: `Bearer ${key}` };

const ways: Readonly<Record<string, (t: TestContext) => Promise<Client<paths>>>> = {
  'our fetch': async (t) =>
    createClient<paths>({ baseUrl: 'http://any/v1', fetch: petstoreOf(t).fetch, headers }),
  'a port': async (t) =>
    createClient<paths>({
      baseUrl: `${(await petstoreOf(t).listen({ port: 0 })).url}/v1`,
      headers,
    }),
};

for (const [way, connect] of Object.entries(ways)) {
  test(`openapi-fetch over ${way} lists, adds and fetches pets, and reads every error`, async (t) => {
    const client = await connect(t);
    const added = await client.POST('/pets', {
      body: { name: 'Rex 🐕', categoryId: 5, status: 'available' },
    });
    assert.deepEqual(added.data, { id: 1, name: 'Rex 🐕', categoryId: 5, status: 'available' });
    assert.equal(added.response.headers.get('Location'), '/v1/pets/1');
    const { data: plain } = await client.POST('/pets', { body: { name: 'Tom', categoryId: 7 } });
    assert.deepEqual(plain, { id: 2, name: 'Tom', categoryId: 7 });

    const first = await client.GET('/pets', { params: { query: { limit: 1 } } });
    assert.deepEqual(first.data, [added.data]);
    assert.match(first.response.headers.get('Link') ?? '', /rel="next"/);
    assert.deepEqual(
      (await client.GET('/pets', { params: { query: { limit: 1, after: 1 } } })).data,
      [plain],
    );
    assert.deepEqual(
      (await client.GET('/pets', { params: { query: { status: 'available' } } })).data,
      [added.data],
    );
    assert.deepEqual(
      (await client.GET('/pets')).data?.map(({ id }) => id),
      [1, 2],
    );
    assert.deepEqual(
      (await client.GET('/pets/{petId}', { params: { path: { petId: 2 } } })).data,
      plain,
    );

    const { GET, POST } = client;
    const big = { name: 'x'.repeat(70_000), categoryId: 1 };
    const asText = { 'Content-Type': 'text/plain' };
    for (const [status, code, response] of [
      [400, 'invalid_parameter', GET('/pets', { params: { query: { limit: 101 } } })],
      [401, 'unauthorized', GET('/pets', { headers: { Authorization: 'Bearer no' } })],
      [404, 'not_found', GET('/pets/{petId}', { params: { path: { petId: 3 } } })],
      [413, 'content_too_large', POST('/pets', { body: big })],
      [
        415,
        'unsupported_media_type',
        POST('/pets', { body: { name: 'a', categoryId: 1 }, headers: asText }),
      ],
      // @ts-expect-error The types know the three statuses of a query,
      [400, 'invalid_parameter', GET('/pets', { params: { query: { status: 'lost' } } })],
      // @ts-expect-error the statuses of a pet,
      [400, 'invalid_body', POST('/pets', { body: { name: 'a', categoryId: 1, status: 'lost' } })],
      // @ts-expect-error and the required fields of a pet.
      [400, 'invalid_body', POST('/pets', { body: { name: 'a' } })],
    ] as const) {
      const { error } = await response;
      assert.deepEqual([error?.status, error?.code], [status, code]);
    }

    const order = await client.POST('/store/orders', { body: { petId: 1, quantity: 2 } });
    assert.equal(order.data?.status, 'placed');
    assert.deepEqual((await client.GET('/store/orders')).data, [order.data]);
  });
}
