// Tests the additions of `test/change.test.ts` to a copy of the source: the field `breed`, the filter
// `categoryId`, the status `adopted` and the query parameter `before`. It runs only in that copy.
import assert from 'node:assert/strict';

import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { testInsertOnce, testPetstore, testStorage } from '../../dist/conformance/index.js';
import {
  createPetstore,
  fileStorage,
  memoryStorage,
  type PetDraft,
  type PetStorage,
} from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { postgresStorage } from '../../dist/postgres/index.js';
import { newDatabase, query, withoutDatabase } from '../postgres/database.js';
import { folder } from '../support/process.js';
import { testInFolder } from '../support/working-folder.js';

const key = 'secret';
const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };

/** Sends a request to a petstore, and returns status, body and the header Link. */
async function send(
  storage: PetStorage,
  target: string,
  body?: string,
): Promise<readonly unknown[]> {
  const petstore = createPetstore({ keys: [key], storage });
  const init = body === undefined ? { headers } : { method: 'POST', headers, body };
  const response = await petstore.fetch(`http://any${target}`, init);
  return [response.status, await response.text(), response.headers.get('Link')];
}

/** The second pet has escapes, which the fast reader of a file leaves to the full JSON parser. */
const rex = '"name":"Rex","categoryId":5,"status":"adopted","breed":"Tüm"';
const tom = '"name":"T\\"om","categoryId":7,"status":"adopted","breed":"\\\\"';
const plain = '"name":"Kim","categoryId":7';

/** Adds three pets, and asserts that each is found with all members. */
async function addsAll(storage: PetStorage): Promise<void> {
  for (const [index, members] of [rex, tom, plain].entries())
    assert.deepEqual((await send(storage, '/v1/pets', `{${members}}`)).slice(0, 2), [
      201,
      `{"id":${index + 1},${members}}`,
    ]);
  await hasAll(storage);
}

async function hasAll(storage: PetStorage): Promise<void> {
  const [first, second, third] = [`{"id":1,${rex}}`, `{"id":2,${tom}}`, `{"id":3,${plain}}`];
  const adopted = await send(storage, '/v1/pets?status=adopted');
  assert.deepEqual(adopted, [200, `[${first},${second}]`, null]);
  assert.deepEqual(await send(storage, '/v1/pets?status=sold'), [200, '[]', null]);
  assert.deepEqual(await send(storage, '/v1/pets'), [200, `[${first},${second},${third}]`, null]);
  assert.equal((await send(storage, '/v1/pets/2'))[1], second);

  for (const [filter, ...bodies] of [
    ['categoryId=7', second, third],
    ['categoryId=5', first],
    ['categoryId=7&status=adopted', second],
    ['categoryId=5&status=sold'],
    ['categoryId=-9223372036854775808'],
  ]) {
    const filtered = await send(storage, `/v1/pets?${filter}`);
    assert.deepEqual(filtered, [200, `[${bodies.join()}]`, null], filter);
  }
  const page = await send(storage, '/v1/pets?categoryId=7&limit=1');
  const link = '</v1/pets?limit=1&categoryId=7&after=2>; rel="next"';
  assert.deepEqual(page, [200, `[${second}]`, link]);
  const refused = await send(storage, '/v1/pets?categoryId=seven');
  assert.equal(refused[0], 400);
  assert.match(String(refused[1]), /categoryId must be an integer from -9223372036854775808 to/);
}

/** Asserts that a list obeys `before`, and that the link to the next page contains it. */
async function obeys(storage: PetStorage): Promise<void> {
  const listed = await send(storage, '/v1/pets?limit=1&before=3');
  assert.deepEqual(listed, [
    200,
    `[{"id":1,${rex}}]`,
    '</v1/pets?limit=1&before=3&after=1>; rel="next"',
  ]);
  assert.equal((await send(storage, '/v1/pets?before=3&after=1'))[1], `[{"id":2,${tom}}]`);
  assert.equal((await send(storage, '/v1/pets?before=x'))[0], 400);
}

const here = folder({ after });
let files = 0;

/** Each storage, with a function that opens it. `place` makes a place for a durable storage. */
const storages: readonly {
  readonly name: string;
  readonly open: (place: string) => PetStorage | Promise<PetStorage>;
  readonly place?: () => string | Promise<string>;
  readonly skip?: string | false;
}[] = [
  { name: 'memory', open: () => memoryStorage() },
  { name: 'a file', open: fileStorage, place: () => join(here, `${++files}.jsonl`) },
  { name: 'PostgreSQL', open: postgresStorage, place: newDatabase, skip: withoutDatabase() },
];

for (const { name, open, place = () => '', skip = false } of storages) {
  describe(`in ${name}`, { skip }, () => {
    const empty = { open: async () => open(await place()) };
    testStorage(empty);
    testInsertOnce(empty);

    test('keeps the new members after a restart, and lists obey the new parameters', async () => {
      const at = await place();
      const storage = await open(at);
      await addsAll(storage);
      await obeys(storage);
      await storage.close();
      if (at === '') return;

      const again = await open(at);
      await hasAll(again);
      await obeys(again);
      await again.close();
    });
  });
}

test('PostgreSQL has the new indexes', { skip: withoutDatabase() }, async () => {
  const named = `SELECT DISTINCT indexname FROM pg_indexes
    WHERE indexname IN ('petstore_pets_adopted', 'petstore_pets_category')`;
  assert.equal((await query(await newDatabase(), named)).length, 2);
});

const petstore = createPetstore({ keys: [key] });
const { url } = await petstore.listen({ port: 0 });
after(petstore.close);
testPetstore({ url, key });

test('rejects an invalid value of a new field', async () => {
  const storage = memoryStorage();
  const [status, body] = await send(storage, '/v1/pets', `{${plain},"status":"gone","breed":5}`);
  assert.equal(status, 400);
  assert.match(
    String(body),
    /status must be one of \\"available\\", \\"pending\\", \\"sold\\", \\"adopted\\", or be left out; breed must be a string, or be left out\./,
  );
});

test('rejects a draft whose fields together are longer than a line', async () => {
  // Each of these characters has six bytes in JSON.
  const [name, breed] = [2 ** 24, 2 ** 23].map((length) => '\x01'.repeat(length));
  const draft = { name, categoryId: 5n, breed } as PetDraft;
  await assert.rejects(memoryStorage().insert(draft), {
    name: 'TypeError',
    message: 'a draft must have at most 134217728 bytes as JSON',
  });
});

test('the OpenAPI document has the additions', async () => {
  const [, text] = await send(memoryStorage(), '/openapi.json');
  const { components, paths } = JSON.parse(String(text));
  assert.deepEqual(components.schemas.PetStatus.enum, ['available', 'pending', 'sold', 'adopted']);
  for (const schema of [components.schemas.NewPet, components.schemas.Pet]) {
    assert.deepEqual(schema.properties.breed, { type: 'string', description: 'Its breed.' });
    assert.ok(!schema.required.includes('breed'));
  }
  const names = paths['/pets'].get.parameters.map(({ name }: { readonly name: string }) => name);
  assert.deepEqual(names, ['limit', 'categoryId', 'status', 'after', 'before']);
});

test('the page has the new column and option', async () => {
  const petstore = createPetstore({ keys: [key], plugins: [docsPlugin()] });
  const page = await (await petstore.fetch('http://any/')).text();
  assert.ok(
    page.includes(
      '<th scope="col" role="columnheader" data-member="breed" class="text">breed</th>',
    ),
    page,
  );
  assert.equal(page.split('<option value="adopted">adopted</option>').length, 3);
});

testInFolder('import and check know the additions', async (folder) => {
  folder.write('in.jsonl', `{${rex},"tags":1}\n`);
  const { stderr } = await folder.done('import in.jsonl --storage file:pets.jsonl');
  assert.match(
    stderr,
    /^ignored unknown members: "tags"; a pet has name, categoryId, status, breed$/m,
  );
  assert.ok(folder.read('pets.jsonl').includes(`{"id":1,${rex}}\n`));
  await folder.prints('check pets.jsonl', /1 adopted, 0 without a status/);
});
