/** Compares the OpenAPI document, the validators, live responses and the specification. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import {
  JsonNumber,
  maxBodyValues,
  memoryStorage,
  parseJson,
  PetstoreError,
  type JsonValue,
  type PetstoreOptions,
} from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { add, key, start, type Running, type RequestParts } from '../support/fixture.js';
import type { Ending } from '../support/at-end.js';
import { root } from '../support/process.js';
import { documentOf, expectResponse, noKey, plainStorage } from '../support/scenes.js';

interface Schema {
  readonly [name: string]: unknown;
  readonly $ref?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}
interface Content {
  readonly 'application/json': { readonly schema: Schema; readonly example: unknown };
}
interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly (Readonly<Record<'name' | 'in' | 'description', string>> & {
    readonly schema: Schema;
    readonly example?: unknown;
  })[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string;
        readonly headers?: Readonly<
          Record<string, { readonly schema: Schema; readonly required?: boolean }>
        >;
        readonly content: Content;
      }
    >
  >;
}
interface Document {
  readonly openapi: string;
  readonly info: object;
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly Readonly<Record<'name' | 'description', string>>[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly securitySchemes: object;
  };
}

/** Returns the document of a new petstore. */
async function newDocument(t: Ending, options?: Partial<PetstoreOptions>): Promise<Document> {
  return documentOf((await start(t, options)).port);
}

/** Returns each operation with its path. */
function operationsOf({ paths }: Document): readonly (readonly [path: string, Operation])[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.values(methods).map((operation) => [path, operation] as const),
  );
}

/** Returns a compiler of schemas, which can refer to the schemas of the document. */
function compiler(document: Document): (schema: Schema) => ValidateFunction {
  // In JSON Schema `int64` checks no range. The petstore's validators do.
  const ajv = new Ajv2020({
    strict: true,
    allErrors: true,
    formats: { int64: true, int32: true, 'date-time': /^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/ },
  });
  const moved = (value: unknown, to: string): object =>
    Object(JSON.parse(JSON.stringify(value).replaceAll('#/components/schemas/', to)));
  ajv.addSchema({ $id: 'document', $defs: moved(document.components.schemas, '#/$defs/') });
  return (schema) => ajv.compile(moved(schema, 'document#/$defs/'));
}

const plugins = [ordersPlugin()];
// Numbers, as `JSON.parse` rounds them.
const [minimum, maximum] = [-(2 ** 63), 2 ** 63];
const int64 = { type: 'integer', format: 'int64', minimum, maximum };
const referTo = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const query = { in: 'query', required: false };

/**
 * Each operation of petstore-spec.md, with the additions of docs/contract.md: 400 of the GETs, 413
 * and 415 of the POST, 503, `after`, and Idempotency-Key with its statuses.
 */
const operations = {
  'get /pets': {
    operationId: 'listPets',
    statuses: ['200', '400', '401', '503'],
    parameters: [
      {
        name: 'limit',
        ...query,
        schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
      },
      { name: 'status', ...query, schema: referTo('PetStatus') },
      { name: 'after', ...query, schema: { ...int64, minimum: 0, default: 0 } },
    ],
  },
  'post /pets': {
    operationId: 'createPet',
    statuses: ['201', '400', '401', '409', '413', '415', '422', '503'],
    parameters: [
      {
        name: 'Idempotency-Key',
        in: 'header',
        required: false,
        schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
      },
    ],
    requestBody: {
      required: true,
      content: { 'application/json': { schema: referTo('NewPet') } },
    },
  },
  'get /pets/{petId}': {
    operationId: 'getPet',
    statuses: ['200', '400', '401', '404', '503'],
    parameters: [{ name: 'petId', in: 'path', required: true, schema: int64 }],
    deprecated: true,
  },
};

test('the document differs from the specification by exactly the list in the contract', async (t) => {
  const document = await newDocument(t);
  // The tests below check the descriptions and the examples.
  const withoutWords = (value: object): object =>
    JSON.parse(JSON.stringify(value), (name, member: unknown) =>
      ['description', 'summary', 'tags', 'example'].includes(name) ? undefined : member,
    );
  const { paths, components, info, openapi: _, servers: _servers, ...rest } = document;
  assert.deepEqual(withoutWords(rest), { security: [{ bearerAuth: [] }] });
  assert.deepEqual(withoutWords(info), {
    title: 'Petstore',
    version: '1.0.0',
    license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
    contact: { name: 'The operator of this server' },
  });
  const found = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses, ...operation }]) => [
      `${method} ${path}`,
      withoutWords({ ...operation, statuses: Object.keys(responses).sort() }),
    ]),
  );
  assert.deepEqual(Object.fromEntries(found), operations);

  const fields = {
    name: { type: 'string' },
    categoryId: int64,
    status: referTo('PetStatus'),
  };
  const text = { type: 'string' };
  assert.deepEqual(withoutWords(components), {
    schemas: {
      PetStatus: { type: 'string', enum: ['available', 'pending', 'sold'] },
      NewPet: { type: 'object', required: ['name', 'categoryId'], properties: fields },
      Pet: {
        type: 'object',
        required: ['id', 'name', 'categoryId'],
        properties: { id: int64, ...fields },
      },
      Pets: { type: 'array', items: referTo('Pet') },
      Error: {
        type: 'object',
        required: ['code', 'message', 'status'],
        properties: { code: text, message: text, status: { type: 'integer' } },
      },
    },
    securitySchemes: { bearerAuth: { type: 'http', scheme: 'bearer' } },
  });
});

test('describes each tag, operation, parameter and field in the document, and where keys come from', async (t) => {
  const document = await newDocument(t, { plugins });
  const { tags, components, paths } = document;
  assert.deepEqual(
    tags.map(({ name }) => name),
    ['pets', 'orders'],
  );
  const described: unknown[] = tags.map(({ description }) => description);
  for (const [path, { parameters = [], ...operation }] of operationsOf(document)) {
    assert.deepEqual(operation.tags, [path.startsWith('/pets') ? 'pets' : 'orders']);
    for (const name of ['summary', 'description']) described.push(Reflect.get(operation, name));
    described.push(...parameters.map(({ description }) => description));
  }
  for (const [name, { description, properties }] of Object.entries(components.schemas)) {
    if (properties === undefined && name !== 'Pets') described.push(description);
    for (const property of Object.values(properties ?? {}))
      if (property.$ref === undefined) described.push(property.description);
  }
  for (const description of described) assert.match(String(description), /^[A-Z].{5,}/);
  assert.match(tags[1]?.description ?? '', /^Experimental/);
  for (const operation of Object.values(paths['/store/orders'] ?? {}))
    assert.equal(Reflect.get(operation, 'x-experimental'), true);
  const keys = JSON.stringify(components.securitySchemes);
  assert.match(keys, /petstore keys add NAME.*data\/dev-key/);
});

test('gives examples that fit their schemas: a pet of data/animals.jsonl, an order, real errors', async (t) => {
  const document = await newDocument(t, { plugins });
  const compile = compiler(document);
  const examples: Record<string, unknown> = {};
  for (const [, { operationId, requestBody, responses }] of operationsOf(document)) {
    const described = { ...responses, ...(requestBody && { sent: requestBody }) };
    for (const [name, { content }] of Object.entries(described)) {
      const { schema, example } = content['application/json'];
      assert.ok(compile(schema)(example), `${operationId} ${name}`);
      examples[`${operationId} ${name}`] = example;
      if (!(Number(name) >= 400)) continue;
      const { code, message, status } = Object(example);
      for (const each of [status, new PetstoreError(code, message).status])
        assert.equal(each, Number(name));
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
  assert.equal(Object.keys(examples).length, 5 + 2 + 22);
});

test('C56 lists the production, staging and relative servers in the document', async (t) => {
  const baseUrl = 'https://api.example.com/v1';
  const stagingBaseUrl = 'https://staging.example.com/v1';
  const shop = 'https://api.example.com/shop/v1/';
  for (const [options, expected] of [
    [{}, ['/v1']],
    [{ baseUrl }, [baseUrl, '/v1']],
    [{ stagingBaseUrl }, [stagingBaseUrl, '/v1']],
    [{ stagingBaseUrl, baseUrl }, [baseUrl, stagingBaseUrl, '/v1']],
    // Tools append a path such as /pets, and a path with two slashes is a 404 (C11).
    [{ baseUrl: shop }, ['https://api.example.com/shop/v1', '/shop/v1']],
    [{ stagingBaseUrl: 'http://a.example/' }, ['http://a.example', '/v1']],
  ] as const) {
    const { servers } = await newDocument(t, options);
    assert.deepEqual(
      servers.map(({ url }) => url),
      expected,
    );
  }
});

test('responds with the documented body and headers for every documented status', async (t) => {
  const { port } = await start(t, { plugins });
  const document: Document = await documentOf(port);
  const compile = compiler(document);
  const order = { body: '{"petId":1,"quantity":1}' };
  for (const status of ['', ',"status":"pending"', ',"status":"sold"']) {
    await add(port, `{"name":"n","categoryId":1${status}}`);
    await expectResponse(port, 'POST /v1/store/orders', 201, order);
  }
  const wrongType = { body: '{}', headers: ['Content-Type: a/b'] };
  const tooLarge = { body: ' '.repeat(65_537) };
  const body = '{"name":"a","categoryId":1,"status":"sold"}';
  // A petstore in which every idempotency key is in flight.
  const insertOnce = () =>
    Promise.reject(new PetstoreError('idempotency_in_flight', 'It is still in flight.'));
  const busy = await start(t, { storage: plainStorage(() => ({ insertOnce })) });
  // A petstore whose storage is closed.
  const away = await start(t, { plugins });
  await away.petstore.storage.close();
  const keyed = { headers: ['Idempotency-Key: k'], body };
  await expectResponse(port, 'POST /v1/pets', 201, keyed);

  const live: Readonly<
    Record<string, readonly [request: string, words?: RequestParts, from?: Running]>
  > = {
    'listPets 200': ['GET /v1/pets?limit=2'],
    'listPets 400': ['GET /v1/pets?limit=0'],
    'listPets 401': ['GET /v1/pets', noKey],
    'listPets 503': ['GET /v1/pets', {}, away],
    'createPet 201': ['POST /v1/pets', { body }],
    'createPet 400': ['POST /v1/pets', { body: '{}' }],
    'createPet 401': ['POST /v1/pets', { body, authorization: 'Bearer no' }],
    'createPet 409': ['POST /v1/pets', keyed, busy],
    'createPet 413': ['POST /v1/pets', tooLarge],
    'createPet 415': ['POST /v1/pets', wrongType],
    'createPet 422': ['POST /v1/pets', { ...keyed, body: `${body} ` }],
    'createPet 503': ['POST /v1/pets', { body }, away],
    'getPet 200': ['GET /v1/pets/2'],
    'getPet 400': ['GET /v1/pets/2?%'],
    'getPet 401': ['GET /v1/pets/2', noKey],
    'getPet 404': ['GET /v1/pets/77'],
    'getPet 503': ['GET /v1/pets/2', {}, away],
    'listOrders 200': ['GET /v1/store/orders?limit=1'],
    'listOrders 400': ['GET /v1/store/orders?limit=0'],
    'listOrders 401': ['GET /v1/store/orders', noKey],
    'listOrders 503': ['GET /v1/store/orders', {}, away],
    'placeOrder 201': ['POST /v1/store/orders', order],
    'placeOrder 400': ['POST /v1/store/orders', { body: '{}' }],
    'placeOrder 401': ['POST /v1/store/orders', { ...order, ...noKey }],
    'placeOrder 413': ['POST /v1/store/orders', tooLarge],
    'placeOrder 415': ['POST /v1/store/orders', wrongType],
    'placeOrder 503': ['POST /v1/store/orders', order, away],
  };
  const plain = [
    ...['cache-control', 'x-content-type-options', 'content-type', 'content-length', 'date'],
    ...['connection', 'keep-alive'],
  ];
  const seen: string[] = [];
  const optional: string[] = [];
  for (const [, { operationId, responses }] of operationsOf(document))
    for (const [status, { description, content, headers = {} }] of Object.entries(responses)) {
      assert.ok(description !== '');
      const name = `${operationId} ${status}`;
      for (const [own, { schema, required }] of Object.entries(headers)) {
        assert.deepEqual(schema, { type: 'string' });
        if (required !== true) optional.push(`${name} ${own}`);
      }
      seen.push(name);
      const [request, words, from = { port }] = live[name] ?? assert.fail(name);
      const response = await expectResponse(from.port, request, Number(status), words, {
        'Content-Type': 'application/json',
      });
      const validate = compile(content['application/json'].schema);
      const value = JSON.parse(Buffer.from(response.body, 'latin1').toString());
      assert.ok(validate(value), `${name}: ${JSON.stringify(validate.errors)}`);
      const special = [...response.headers.keys()].filter((own) => !plain.includes(own)).sort();
      const promised = Object.keys(headers).map((own) => own.toLowerCase());
      assert.deepEqual(special, promised.sort(), `${name}: headers sent and headers documented`);
    }
  assert.deepEqual(seen.sort(), Object.keys(live).sort());
  assert.deepEqual(optional, [
    'listPets 200 Link',
    'createPet 201 Location',
    'listOrders 200 Link',
  ]);
});

test('each request of the examples in the document succeeds, in any order', async (t) => {
  const { petstore } = await start(t, {
    plugins: [faultsPlugin(), ordersPlugin()],
    storage: memoryStorage({ pets: Array.from('abcde', (name) => ({ name, categoryId: 1n })) }),
  });
  const document: Document = JSON.parse(
    await (await petstore.fetch('http://any/openapi.json')).text(),
  );
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const seen: string[] = [];
  for (const { path, method, operation } of [...operations, ...operations.toReversed()]) {
    const { operationId, parameters = [], requestBody } = operation;
    const valuesIn = (place: string): string[][] =>
      parameters
        .filter((each) => each.in === place)
        .map(({ name, example, schema }) => ({ name, value: example ?? schema['default'] }))
        .flatMap(({ name, value }) => (value === undefined ? [] : [[name, String(value)]]));
    const [[name = '', value = ''] = []] = valuesIn('path');
    const query = new URLSearchParams(Object.fromEntries(valuesIn('query')));
    const target = `http://any/v1${path.replace(`{${name}}`, value)}?${query}`;
    const own = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const headers = { ...Object.fromEntries(valuesIn('header')), ...own };
    const body = JSON.stringify(requestBody?.content['application/json'].example) ?? null;
    const init = { method: method.toUpperCase(), headers, body };
    const response = await petstore.fetch(target, init);
    assert.ok(response.ok, `${init.method} ${target}: ${await response.text()}`);
    seen.push(`${operationId} ${value}${query}`);
  }
  for (const text of ['getPet 1', 'listPets limit=20&after=0'])
    assert.equal(seen.filter((each) => each === text).length, 2, seen.join('\n'));

  const [idempotencyKey] = document.paths['/pets']?.['post']?.parameters ?? [];
  const uuid = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;
  assert.match(String(idempotencyKey?.example), uuid);
  for (const { operation } of operations)
    for (const { name, schema, ...parameter } of operation.parameters ?? [])
      if (name === 'Petstore-Fault') {
        assert.deepEqual(schema, { type: 'string', default: '' });
        assert.ok(!('example' in parameter || 'examples' in parameter));
      }
});

test('C61 ignores an empty Petstore-Fault', async (t) => {
  const rules = [{ fault: 'status=429', times: 1 }];
  const { port } = await start(t, { plugins: [faultsPlugin({ rules })] });
  const empty = { headers: ['Petstore-Fault:'] };
  await expectResponse(port, 'GET /v1/pets', 429, empty);
  await expectResponse(port, 'GET /v1/pets', 200, empty);
});

test('the document describes each operation of the faults plugin and its statuses', async (t) => {
  const document = await newDocument(t, { plugins: [faultsPlugin()] });
  for (const [path, operation] of operationsOf(document)) {
    assert.match(String(Reflect.get(operation, 'description')), /^[A-Z].{5,}\.$/, path);
    assert.ok('400' in operation.responses, path);
  }
  const { put } = document.paths['/faults'] ?? {};
  for (const status of ['400', '401', '413', '415']) assert.ok(put?.responses[status], status);
  const { get } = document.paths['/pets/{petId}'] ?? {};
  for (const [status, { headers = {} }] of Object.entries(get?.responses ?? {}))
    for (const name of ['Deprecation', 'Sunset', 'Link'])
      assert.equal(headers[name]?.required, true, `${status} ${name}`);
});

/** A schema whose bounds have all digits. */
interface ExactSchema {
  readonly type?: string;
  readonly $ref?: string;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly minimum?: bigint;
  readonly maximum?: bigint;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, ExactSchema>>;
}

/** Returns plain values, with a bigint for each number. */
function exactly(value: JsonValue): unknown {
  if (value instanceof JsonNumber) return BigInt(value.text);
  if (Array.isArray(value)) return value.map(exactly);
  if (!(value instanceof Map)) return value;
  return Object.fromEntries([...value].map(([name, member]) => [name, exactly(member)]));
}

/** Generates the JSON texts of values that fit a schema; a string of a parameter has no quotes. */
function valuesOf(schema: ExactSchema, schemas: Readonly<Record<string, ExactSchema>>) {
  const jsonOf = (each: ExactSchema): fc.Arbitrary<string> => {
    const { type, $ref, minimum, maximum, pattern } = each;
    if ($ref !== undefined) return jsonOf(schemas[$ref.replace(/.*\//, '')] ?? assert.fail($ref));
    if (each.enum !== undefined) return fc.constantFrom(...each.enum).map((text) => `"${text}"`);
    if (type === 'integer' && minimum !== undefined && maximum !== undefined)
      return fc.bigInt({ min: minimum, max: maximum }).map(String);
    if (type === 'string' && pattern === undefined)
      return fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text));
    if (pattern !== undefined) return fc.stringMatching(RegExp(pattern)).map((text) => `"${text}"`);
    assert.equal(type, 'object', 'an integer of the document has bounds');
    const members = Object.entries(each.properties ?? {}).map(([name, property]) => {
      const member = jsonOf(property).map((value) => [`"${name}":${value}`]);
      return each.required?.includes(name) ? member : fc.option(member, { nil: [] });
    });
    return fc.tuple(...members).map((texts) => `{${texts.flat().join(',')}}`);
  };
  return jsonOf(schema);
}

test('C1 C6 C10 C23 C57 never responds 400 to a request that fits the document', async (t) => {
  const { petstore } = await start(t);
  const text = await (await petstore.fetch('http://any/openapi.json')).text();
  assert.match(text, /"minimum":-9223372036854775808,"maximum":9223372036854775807\b/);
  assert.doesNotMatch(text, /9223372036854776000/);
  const { paths, components } = Object(exactly(parseJson(text, maxBodyValues)));
  const authorization = { Authorization: `Bearer ${key}` };
  const values = (schema: ExactSchema) => valuesOf(schema, components.schemas);
  const unquoted = (schema: ExactSchema) =>
    values(schema).map((json) => json.replace(/^"|"$/g, ''));

  const { get: list, post: create } = paths['/pets'];
  const query = fc.record(
    Object.fromEntries(
      list.parameters.map((each: { name: string; schema: ExactSchema }) => [
        each.name,
        unquoted(each.schema),
      ]),
    ),
    { requiredKeys: [] },
  );
  const pet = values(create.requestBody.content['application/json'].schema);
  const idempotencyKey = unquoted(create.parameters[0].schema).map((each) => each.slice(0, 255));
  const id = unquoted(paths['/pets/{petId}'].get.parameters[0].schema);
  const numRuns = 300;
  await fc.assert(
    fc.asyncProperty(query, async (parameters) => {
      const target = `http://any/v1/pets?${new URLSearchParams(Object(parameters))}`;
      assert.equal((await petstore.fetch(target, { headers: authorization })).status, 200, target);
    }),
    { numRuns },
  );
  await fc.assert(
    fc.asyncProperty(pet, idempotencyKey, async (body, keyOfPet) => {
      const headers = { ...authorization, 'Content-Type': 'application/json' };
      const keyed = { ...headers, 'Idempotency-Key': keyOfPet };
      const init = { method: 'POST', headers: keyed, body };
      const { status } = await petstore.fetch('http://any/v1/pets', init);
      assert.ok(status === 201 || status === 422, `${status} ${body}`);
    }),
    { numRuns },
  );
  await fc.assert(
    fc.asyncProperty(id, async (petId) => {
      const target = `http://any/v1/pets/${petId}`;
      const { status } = await petstore.fetch(target, { headers: authorization });
      assert.ok(status === 200 || status === 404, target);
    }),
    { numRuns },
  );
});
