// What `test/change.test.ts` adds to a copy of the source must do there: the field `breed`, the
// status `adopted` and the query parameter `before`. It is run in that copy alone.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
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
import { folder, StartedProcess, serverFile } from '../support/process.js';

const key = 'secret';
const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };

/** Asks a petstore; answers status, body and the header Link. */
async function ask(
  storage: PetStorage,
  target: string,
  body?: string,
): Promise<readonly unknown[]> {
  const petstore = createPetstore({ keys: [key], storage });
  const init = body === undefined ? { headers } : { method: 'POST', headers, body };
  const response = await petstore.fetch(`http://any${target}`, init);
  return [response.status, await response.text(), response.headers.get('Link')];
}

/** The second one has what the quick reader of a file leaves to the reader of all JSON. */
const rex = '"name":"Rex","categoryId":5,"status":"adopted","breed":"Tüm"';
const tom = '"name":"T\\"om","categoryId":7,"status":"adopted","breed":"\\\\"';
const plain = '"name":"Kim","categoryId":7';

/** Adds three animals, and finds all of each. */
async function addsAll(storage: PetStorage): Promise<void> {
  for (const [index, members] of [rex, tom, plain].entries())
    assert.deepEqual((await ask(storage, '/v1/pets', `{${members}}`)).slice(0, 2), [
      201,
      `{"id":${index + 1},${members}}`,
    ]);
  await hasAll(storage);
}

async function hasAll(storage: PetStorage): Promise<void> {
  const [first, second, third] = [`{"id":1,${rex}}`, `{"id":2,${tom}}`, `{"id":3,${plain}}`];
  const adopted = await ask(storage, '/v1/pets?status=adopted');
  assert.deepEqual(adopted, [200, `[${first},${second}]`, null]);
  assert.deepEqual(await ask(storage, '/v1/pets?status=sold'), [200, '[]', null]);
  assert.deepEqual(await ask(storage, '/v1/pets'), [200, `[${first},${second},${third}]`, null]);
  assert.equal((await ask(storage, '/v1/pets/2'))[1], second);
}

/** A list obeys the parameter, and the link to the next page has it. */
async function obeys(storage: PetStorage): Promise<void> {
  const listed = await ask(storage, '/v1/pets?limit=1&before=3');
  assert.deepEqual(listed, [
    200,
    `[{"id":1,${rex}}]`,
    '</v1/pets?limit=1&before=3&after=1>; rel="next"',
  ]);
  assert.equal((await ask(storage, '/v1/pets?before=3&after=1'))[1], `[{"id":2,${tom}}]`);
  assert.equal((await ask(storage, '/v1/pets?before=x'))[0], 400);
}

test('in memory', async () => {
  const storage = memoryStorage();
  await addsAll(storage);
  await obeys(storage);
});

test('in a file, and after a restart', async (t) => {
  const path = join(folder(t), 'pets.jsonl');
  const before = await fileStorage(path);
  await addsAll(before);
  await before.close();
  const after = await fileStorage(path);
  await hasAll(after);
  await obeys(after);
  await after.close();
});

test('in PostgreSQL', { skip: withoutDatabase() }, async () => {
  const url = await newDatabase();
  const storage = await postgresStorage(url);
  await addsAll(storage);
  await storage.close();
  const again = await postgresStorage(url);
  await hasAll(again);
  await obeys(again);
  await again.close();
  const indexes = await query(url, 'SELECT indexname FROM pg_indexes WHERE indexname = $1', [
    'petstore_pets_adopted',
  ]);
  assert.ok(indexes.length > 0);
});

test('a bad value is refused by its rule', async () => {
  const storage = memoryStorage();
  const [status, body] = await ask(storage, '/v1/pets', `{${plain},"status":"gone","breed":5}`);
  assert.equal(status, 400);
  assert.match(
    String(body),
    /status must be one of \\"available\\", \\"pending\\", \\"sold\\", \\"adopted\\", or be left out; breed must be a string, or be left out\./,
  );
});

test('a draft whose fields are longer together than a line may be is refused', async () => {
  // As JSON each of these characters has six bytes.
  const [name, breed] = [2 ** 24, 2 ** 23].map((length) => '\x01'.repeat(length));
  const draft = { name, categoryId: 5n, breed } as PetDraft;
  await assert.rejects(memoryStorage().insert(draft), {
    name: 'TypeError',
    message: 'a draft must have at most 134217728 bytes as JSON',
  });
});

test('the document has them', async () => {
  const [, text] = await ask(memoryStorage(), '/openapi.json');
  const { components, paths } = JSON.parse(String(text));
  assert.deepEqual(components.schemas.PetStatus.enum, ['available', 'pending', 'sold', 'adopted']);
  for (const schema of [components.schemas.NewPet, components.schemas.Pet]) {
    assert.deepEqual(schema.properties.breed, { type: 'string', description: 'Its breed.' });
    assert.ok(!schema.required.includes('breed'));
  }
  const names = paths['/pets'].get.parameters.map(({ name }: { readonly name: string }) => name);
  assert.deepEqual(names, ['limit', 'status', 'after', 'before']);
});

test('the page has a column and an option', async () => {
  const petstore = createPetstore({ keys: [key], plugins: [docsPlugin()] });
  const page = await (await petstore.fetch('http://any/')).text();
  assert.ok(page.includes('<th scope="col" data-member="breed" class="text">breed</th>'), page);
  assert.equal(page.split('<option>adopted</option>').length, 3);
});

test('import and check know them', async (t) => {
  const cwd = folder(t);
  writeFileSync(join(cwd, 'in.jsonl'), `{${rex},"tags":1}\n`);
  const run = (...words: readonly string[]) =>
    new StartedProcess(process.execPath, [serverFile, ...words], { cwd }).ended;
  const imported = await run('import', 'in.jsonl', '--storage', 'file:pets.jsonl');
  assert.match(
    imported.stderr,
    /^ignored: "tags"; an animal has name, categoryId, status, breed$/m,
  );
  assert.ok(readFileSync(join(cwd, 'pets.jsonl'), 'utf8').includes(`{"id":1,${rex}}\n`));
  assert.match((await run('check', 'pets.jsonl')).stdout, /1 adopted, 0 without a status/);
});
