// A client that we have not written, with types that we have not written, talks to the petstore,
// with a port and without. That this file compiles is half of the check: the types know what is
// asked and answered.
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
    for (const [status, code, answer] of [
      [400, 'invalid_parameter', GET('/pets', { params: { query: { limit: 101 } } })],
      [401, 'unauthorized', GET('/pets', { headers: { Authorization: 'Bearer no' } })],
      [404, 'not_found', GET('/pets/{petId}', { params: { path: { petId: 3 } } })],
      [413, 'content_too_large', POST('/pets', { body: big })],
      [
        415,
        'unsupported_media_type',
        POST('/pets', { body: { name: 'a', categoryId: 1 }, headers: asText }),
      ],
      // @ts-expect-error The types know the three states,
      [400, 'invalid_parameter', GET('/pets', { params: { query: { status: 'lost' } } })],
      // @ts-expect-error of an animal too,
      [400, 'invalid_body', POST('/pets', { body: { name: 'a', categoryId: 1, status: 'lost' } })],
      // @ts-expect-error and what an animal must have.
      [400, 'invalid_body', POST('/pets', { body: { name: 'a' } })],
    ] as const) {
      const { error } = await answer;
      assert.deepEqual([error?.status, error?.code], [status, code]);
    }

    const order = await client.POST('/store/orders', { body: { petId: 1, quantity: 2 } });
    assert.equal(order.data?.status, 'placed');
    assert.deepEqual((await client.GET('/store/orders')).data, [order.data]);
  });
}
