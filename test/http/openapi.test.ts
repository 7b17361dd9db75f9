/**
 * The OpenAPI document, the validators and live answers, held against each other and against the
 * specification.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import {
  memoryStorage,
  parseDraft,
  parseJson,
  PetstoreError,
  toByteString,
} from '../../dist/index.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { add, ask, bytesOf, key, ofItsOwn, start } from '../support/fixture.js';
import { Client, header, type Answer } from '../support/client.js';
import { root } from '../support/process.js';

interface Schema {
  readonly [name: string]: unknown;
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}
interface Response {
  readonly description: string;
  readonly headers?: Readonly<
    Record<string, { readonly description: string; readonly schema: Schema }>
  >;
  readonly content: {
    readonly 'application/json': { readonly schema: Schema; readonly example: unknown };
  };
}
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly deprecated?: boolean;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly description: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: {
      readonly 'application/json': { readonly schema: Schema; readonly example: unknown };
    };
  };
  readonly responses: Readonly<Record<string, Response>>;
}
interface Document {
  readonly openapi: string;
  readonly info: Readonly<Record<'title' | 'version' | 'description', string>> & {
    readonly license: unknown;
  };
  readonly servers: readonly { readonly url: string }[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly securitySchemes: object;
  };
}

async function documentOf(port: number): Promise<Document> {
  return JSON.parse((await ask(port, 'GET', '/openapi.json', { authorization: null })).body);
}

/** A validator of schemas that may refer to the document's own. */
function compiler(document: Document): (schema: Schema) => ValidateFunction {
  // `format: int64` says nothing of a range by itself; the range is the validators' own.
  const ajv = new Ajv2020({
    strict: true,
    allErrors: true,
    formats: { int64: true, int32: true, 'date-time': true },
  });
  const moved = (value: unknown, to: string): object =>
    Object(JSON.parse(JSON.stringify(value).replaceAll('#/components/schemas/', to)));
  ajv.addSchema({ $id: 'document', $defs: moved(document.components.schemas, '#/$defs/') });
  return (schema) => ajv.compile(moved(schema, 'document#/$defs/'));
}

function operationOf(document: Document, path: string, method: string): Operation {
  return document.paths[path]?.[method] ?? assert.fail(`${method} ${path} is not in the document`);
}

/** What petstore-spec.md says of each operation. */
const specified = {
  listPets: {
    path: '/pets',
    method: 'get',
    statuses: ['200', '401'],
    parameters: ['limit', 'status'],
  },
  createPet: { path: '/pets', method: 'post', statuses: ['201', '400', '401'], parameters: [] },
  getPet: {
    path: '/pets/{petId}',
    method: 'get',
    statuses: ['200', '401', '404'],
    parameters: ['petId'],
  },
} as const;

/**
 * All that CONTRACT.md adds: 400 on the list, 413 and 415 on adding, 503, `after`, headers; and what
 * Idempotency-Key brings.
 */
const additions = {
  listPets: { statuses: ['400', '503'], parameters: ['after'] },
  createPet: { statuses: ['409', '413', '415', '422', '503'], parameters: ['Idempotency-Key'] },
  getPet: { statuses: ['503'], parameters: [] },
} as const;

test('the document differs from the specification by exactly the list in CONTRACT.md', async (t) => {
  const { port } = await start(t);
  const document = await documentOf(port);
  const members = ['components', 'info', 'openapi', 'paths', 'security', 'servers', 'tags'];
  assert.deepEqual(Object.keys(document).sort(), members);
  assert.equal(document.info.version, '1.0.0');
  assert.deepEqual(document.info.license, {
    name: 'MIT',
    url: 'https://opensource.org/license/mit',
  });
  assert.deepEqual(
    Object.entries(document.paths).map(([path, methods]) => [path, Object.keys(methods)]),
    [
      ['/pets', ['get', 'post']],
      ['/pets/{petId}', ['get']],
    ],
  );
  for (const name of ['listPets', 'createPet', 'getPet'] as const) {
    const { path, method, statuses, parameters } = specified[name];
    const operation = operationOf(document, path, method);
    assert.equal(operation.operationId, name);
    assert.deepEqual(
      Object.keys(operation.responses).sort(),
      [...statuses, ...additions[name].statuses].sort(),
    );
    assert.ok(!('default' in operation.responses));
    assert.deepEqual(
      (operation.parameters ?? []).map((parameter) => parameter.name),
      [...parameters, ...additions[name].parameters],
    );
    assert.equal(operation.deprecated ?? false, name === 'getPet');
    assert.equal(operation.requestBody !== undefined, name === 'createPet');
  }
  const [limit, status, after] = operationOf(document, '/pets', 'get').parameters ?? [];
  assert.deepEqual(
    [limit?.in, limit?.required, limit?.schema],
    ['query', false, { type: 'integer', minimum: 1, maximum: 100, default: 20 }],
  );
  assert.deepEqual(
    [status?.in, status?.required, status?.schema],
    ['query', false, { $ref: '#/components/schemas/PetStatus' }],
  );
  assert.deepEqual(
    [after?.in, after?.required, after?.schema],
    ['query', false, { type: 'integer', format: 'int64', minimum: 0 }],
  );
  const [petId] = operationOf(document, '/pets/{petId}', 'get').parameters ?? [];
  assert.deepEqual(
    [petId?.in, petId?.required, petId?.schema],
    ['path', true, { type: 'integer', format: 'int64' }],
  );
  const [idempotencyKey] = operationOf(document, '/pets', 'post').parameters ?? [];
  assert.deepEqual(
    [idempotencyKey?.in, idempotencyKey?.required, idempotencyKey?.schema],
    ['header', false, { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' }],
  );
  const { required, content } = operationOf(document, '/pets', 'post').requestBody ?? assert.fail();
  assert.deepEqual([required, Object.keys(content)], [true, ['application/json']]);
  assert.deepEqual(content['application/json'].schema, { $ref: '#/components/schemas/NewPet' });

  const withoutWords = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (name, member: unknown) =>
      name === 'description' ? undefined : member,
    );
  const int64 = { type: 'integer', format: 'int64' };
  const fields = {
    name: { type: 'string' },
    categoryId: int64,
    status: { $ref: '#/components/schemas/PetStatus' },
  };
  assert.deepEqual(withoutWords(document.components.schemas), {
    PetStatus: { type: 'string', enum: ['available', 'pending', 'sold'] },
    NewPet: { type: 'object', required: ['name', 'categoryId'], properties: fields },
    Pet: {
      type: 'object',
      required: ['id', 'name', 'categoryId'],
      properties: { id: int64, ...fields },
    },
    Pets: { type: 'array', items: { $ref: '#/components/schemas/Pet' } },
    Error: {
      type: 'object',
      required: ['code', 'message', 'status'],
      properties: {
        code: { type: 'string' },
        message: { type: 'string' },
        status: { type: 'integer' },
      },
    },
  });
  assert.deepEqual(withoutWords(document.components.securitySchemes), {
    bearerAuth: { type: 'http', scheme: 'bearer' },
  });
  assert.deepEqual(document.security, [{ bearerAuth: [] }]);
});

test('the document is OpenAPI 3.1 in its structure: every reference, parameter, id and response fits', async (t) => {
  const { port } = await start(t);
  const document = await documentOf(port);
  assert.match(document.openapi, /^3\.1\.\d+$/);
  assert.ok(document.info.title !== '');
  const ids = new Set<string>();
  for (const [path, methods] of Object.entries(document.paths)) {
    assert.match(path, /^\//);
    for (const operation of Object.values(methods)) {
      assert.ok(!ids.has(operation.operationId));
      ids.add(operation.operationId);
      const templated = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      assert.deepEqual(
        (operation.parameters ?? [])
          .filter((parameter) => parameter.in === 'path')
          .map((parameter) => parameter.name),
        templated,
      );
      for (const [status, response] of Object.entries(operation.responses)) {
        assert.match(status, /^[2-5]\d\d$/);
        assert.ok(response.description !== '');
        const { schema } = response.content['application/json'];
        assert.equal(
          schema.$ref === '#/components/schemas/Error',
          Number(status) >= 400,
          `${operation.operationId} ${status}`,
        );
        for (const one of Object.values(response.headers ?? {}))
          assert.deepEqual(one.schema, { type: 'string' });
      }
    }
  }
  const names = Object.keys(document.components.schemas);
  for (const [, name = ''] of JSON.stringify(document).matchAll(
    /"\$ref":"#\/components\/schemas\/(\w+)"/g,
  ))
    assert.ok(names.includes(name), name);
  assert.equal(
    [...JSON.stringify(document).matchAll(/"\$ref":"(?!#\/components\/schemas\/)/g)].length,
    0,
  );
  const compile = compiler(document);
  for (const name of names) compile({ $ref: `#/components/schemas/${name}` });
});

test('the document explains itself: tags, operations, parameters and fields; and where the key comes from', async (t) => {
  const document = await documentOf((await start(t, { plugins: [ordersPlugin()] })).port);
  assert.deepEqual(
    document.tags.map(({ name }) => name),
    ['pets', 'orders'],
  );
  const named = document.tags.map(({ name }) => name);
  const described: (string | undefined)[] = document.tags.map(({ description }) => description);
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const operation of Object.values(methods)) {
      assert.deepEqual(operation.tags, [path.startsWith('/pets') ? named[0] : named[1]]);
      described.push(operation.summary, operation.description);
      for (const parameter of operation.parameters ?? []) described.push(parameter.description);
    }
  }
  for (const [name, { description, properties }] of Object.entries(document.components.schemas)) {
    if (properties === undefined && name !== 'Pets') described.push(description);
    for (const property of Object.values(properties ?? {}))
      if (property.$ref === undefined) described.push(property.description);
  }
  for (const description of described) assert.match(description ?? '', /^[A-Z].{5,}/);
  assert.match(document.tags[1]?.description ?? '', /^Experimental/);
  for (const operation of Object.values(document.paths['/store/orders'] ?? {}))
    assert.equal(Reflect.get(operation, 'x-experimental'), true);
  assert.match(
    JSON.stringify(document.components.securitySchemes),
    /petstore keys add NAME.*data\/dev-key/,
  );
});

test('its examples are an animal of data/animals.jsonl as `make seed` adds it, an order of it, and errors as they are', async (t) => {
  const document = await documentOf((await start(t, { plugins: [ordersPlugin()] })).port);
  const compile = compiler(document);
  const examples: Record<string, unknown> = {};
  for (const operation of Object.values(document.paths).flatMap((methods) =>
    Object.values(methods),
  )) {
    const { operationId, requestBody, responses } = operation;
    for (const [name, { content }] of Object.entries({
      ...responses,
      ...(requestBody && { sent: requestBody }),
    })) {
      const { schema, example } = content['application/json'];
      assert.ok(compile(schema)(example), `${operationId} ${name}`);
      examples[`${operationId} ${name}`] = example;
      if (!(Number(name) >= 400)) continue;
      const { code, message, status } = Object(example);
      assert.deepEqual(
        [status, new PetstoreError(code, message).status],
        [Number(name), Number(name)],
      );
    }
  }
  const animals = readFileSync(join(root, 'data/animals.jsonl'), 'utf8').split('\n');
  const { id, ...draft } = Object(examples['getPet 200']);
  assert.deepEqual(draft, JSON.parse(animals[id - 1] ?? ''));
  assert.deepEqual(examples['createPet sent'], draft);
  assert.deepEqual(examples['createPet 201'], { id, ...draft });
  assert.deepEqual(examples['listPets 200'], [{ id, ...draft }]);
  assert.deepEqual(examples['listOrders 200'], [examples['placeOrder 201']]);
  assert.equal(Object(examples['placeOrder sent']).petId, id);
  assert.equal(Object.keys(examples).length, 5 + 2 + 21);
});

test('C56 servers begin with production, then staging, where configured, and end with the path of production or else /v1', async (t) => {
  const [baseUrl, stagingBaseUrl] = [
    'https://api.example.com/v1',
    'https://staging.example.com/v1',
  ];
  const servers = async (options: object): Promise<readonly unknown[]> =>
    (await documentOf((await start(t, options)).port)).servers.map(({ url }) => url);
  assert.deepEqual(await servers({}), ['/v1']);
  assert.deepEqual(await servers({ baseUrl }), [baseUrl, '/v1']);
  assert.deepEqual(await servers({ stagingBaseUrl }), [stagingBaseUrl, '/v1']);
  assert.deepEqual(await servers({ stagingBaseUrl, baseUrl }), [baseUrl, stagingBaseUrl, '/v1']);
  const shop = 'https://api.example.com/shop/v1/';
  assert.deepEqual(await servers({ baseUrl: shop }), [shop, '/shop/v1']);
});

test('a live answer of every documented status fits the document: its body, and the headers that it promises', async (t) => {
  const { port } = await start(t);
  const document = await documentOf(port);
  const compile = compiler(document);
  for (let i = 0; i < 3; i++)
    await add(port, `{"name":"n","categoryId":${i}${i ? ',"status":"pending"' : ''}}`);
  const body = '{"name":"a","categoryId":1,"status":"sold"}';
  const large = async (): Promise<Answer> => {
    const client = (await Client.connect(port)).send(
      bytesOf('POST', '/v1/pets', { body: ' '.repeat(65_537) }),
    );
    const answer = await client.answer('POST');
    client.destroy();
    return answer;
  };
  // One that is always under way.
  const { insert, get, list, close } = memoryStorage();
  const insertOnce = () =>
    Promise.reject(new PetstoreError('idempotency_in_flight', 'It is still under way.'));
  const busy = await start(t, {
    storage: { durable: false, insert, insertOnce, get, list, close },
  });
  // One whose storage is closed.
  const closed = memoryStorage();
  await closed.close();
  const away = await start(t, { storage: closed });
  const keyed = { headers: ['Idempotency-Key: k'] };
  await ask(port, 'POST', '/v1/pets', { ...keyed, body });
  const live: Readonly<Record<string, () => Promise<Answer>>> = {
    'listPets 200': () => ask(port, 'GET', '/v1/pets?limit=2'),
    'listPets 400': () => ask(port, 'GET', '/v1/pets?limit=0'),
    'listPets 401': () => ask(port, 'GET', '/v1/pets', { authorization: null }),
    'createPet 201': () => ask(port, 'POST', '/v1/pets', { body }),
    'createPet 400': () => ask(port, 'POST', '/v1/pets', { body: '{}' }),
    'createPet 401': () => ask(port, 'POST', '/v1/pets', { body, authorization: 'Bearer no' }),
    'createPet 409': () => ask(busy.port, 'POST', '/v1/pets', { ...keyed, body }),
    'createPet 413': large,
    'createPet 415': () => ask(port, 'POST', '/v1/pets', { body, headers: ['Content-Type: a/b'] }),
    'createPet 422': () => ask(port, 'POST', '/v1/pets', { ...keyed, body: `${body} ` }),
    'listPets 503': () => ask(away.port, 'GET', '/v1/pets'),
    'createPet 503': () => ask(away.port, 'POST', '/v1/pets', { body }),
    'getPet 503': () => ask(away.port, 'GET', '/v1/pets/2'),
    'getPet 200': () => ask(port, 'GET', '/v1/pets/2'),
    'getPet 401': () => ask(port, 'GET', '/v1/pets/2', { authorization: null }),
    'getPet 404': () => ask(port, 'GET', '/v1/pets/77'),
  };
  const documented = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).flatMap(({ operationId, responses }) =>
      Object.keys(responses).map((status) => `${operationId} ${status}`),
    ),
  );
  assert.deepEqual(Object.keys(live).sort(), documented.sort());
  const plain = [
    'cache-control',
    'x-content-type-options',
    'content-type',
    'content-length',
    'date',
    'connection',
    'keep-alive',
  ];
  for (const [name, request] of Object.entries(live)) {
    const [id = '', status = ''] = name.split(' ');
    const operation = Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .find(({ operationId }) => operationId === id);
    const response = operation?.responses[status] ?? assert.fail(name);
    const answer = await request();
    assert.equal(answer.status, Number(status), name);
    assert.equal(header(answer, 'Content-Type'), 'application/json');
    const validate = compile(response.content['application/json'].schema);
    assert.ok(
      validate(JSON.parse(Buffer.from(answer.body, 'latin1').toString())),
      `${name}: ${JSON.stringify(validate.errors)}`,
    );
    const special = [...answer.headers.keys()].filter((own) => !plain.includes(own)).sort();
    assert.deepEqual(
      special,
      Object.keys(response.headers ?? {})
        .map((own) => own.toLowerCase())
        .sort(),
      `${name}: what it sends and what it promises`,
    );
  }
});

test('the validators and the schema of NewPet agree on generated values, apart from the range of int64', async (t) => {
  const { port } = await start(t);
  const validate = compiler(await documentOf(port))({ $ref: '#/components/schemas/NewPet' });
  const odd = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('sold', 'SOLD', '', null, 1, 1.5, -0, 1e300, true, [], {}),
  );
  const field = <Value>(good: fc.Arbitrary<Value>): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 3, arbitrary: good }, odd);
  const value = fc.oneof(
    {
      weight: 9,
      arbitrary: fc.record(
        {
          name: field(fc.string()),
          categoryId: field(fc.integer()),
          status: field(fc.constantFrom('available', 'pending', 'sold')),
          id: odd,
          extra: odd,
        },
        { requiredKeys: [], noNullPrototype: true },
      ),
    },
    { weight: 1, arbitrary: odd },
  );
  let [taken, refused] = [0, 0];
  fc.assert(
    fc.property(value, (candidate) => {
      const text = JSON.stringify(candidate);
      const byUs = ((): boolean => {
        try {
          parseDraft(parseJson(toByteString(text)));
          return true;
        } catch (error) {
          assert.ok(error instanceof PetstoreError, String(error));
          // The reader's own rules stand before any schema.
          fc.pre(error.code === 'invalid_body');
          return false;
        }
      })();
      const parsed: unknown = JSON.parse(text);
      const categoryId =
        typeof parsed === 'object' && parsed !== null && 'categoryId' in parsed
          ? parsed.categoryId
          : undefined;
      const isInRange = typeof categoryId !== 'number' || Math.abs(categoryId) < 2 ** 63;
      assert.equal(byUs, validate(parsed) && isInRange, text);
      if (byUs) taken++;
      else refused++;
    }),
    { numRuns: 4_000 },
  );
  assert.ok(taken > 200 && refused > 200, `${taken} taken, ${refused} refused`);
});

test('the parameters of the document and the answers to them agree', async (t) => {
  const { port } = await start(t, ofItsOwn);
  const document = await documentOf(port);
  const compile = compiler(document);
  const [limit, status, after] = (operationOf(document, '/pets', 'get').parameters ?? []).map(
    ({ schema }) => compile(schema),
  );
  const numbers = [-1, 0, 1, 2, 20, 99, 100, 101, 1000];
  for (const number of numbers)
    assert.equal(
      (await ask(port, 'GET', `/v1/pets?limit=${number}`)).status === 200,
      limit?.(number),
      `limit ${number}`,
    );
  for (const number of numbers)
    assert.equal(
      (await ask(port, 'GET', `/v1/pets?after=${number}`)).status === 200,
      after?.(number),
      `after ${number}`,
    );
  for (const text of ['available', 'pending', 'sold', 'Sold', '', 'x'])
    assert.equal(
      (await ask(port, 'GET', `/v1/pets?status=${text}`)).status === 200,
      status?.(text),
      text,
    );
  const [idempotencyKey] = (operationOf(document, '/pets', 'post').parameters ?? []).map(
    ({ schema }) => compile(schema),
  );
  const body = '{"name":"a","categoryId":1}';
  for (const value of ['', '!', '~', 'a b', '"k"', 'k'.repeat(255), 'k'.repeat(256)]) {
    assert.equal(
      (await ask(port, 'POST', '/v1/pets', { body, headers: [`Idempotency-Key: ${value}`] }))
        .status === 201,
      idempotencyKey?.(value),
      value,
    );
  }
  for (let i = 0; i < 25; i++) await add(port, '{"name":"a","categoryId":1}');
  assert.equal(JSON.parse((await ask(port, 'GET', '/v1/pets')).body).length, 20, 'the default');
});

test('the document is the same text until a route goes, and needs no key', async (t) => {
  const { port } = await start(t);
  const [first, second] = [
    await ask(port, 'GET', '/openapi.json', { authorization: `Bearer ${key}` }),
    await ask(port, 'GET', '/openapi.json', { authorization: null }),
  ];
  assert.equal(first.body, second.body);
});
