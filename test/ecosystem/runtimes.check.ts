// Bun and Deno: their own servers serve our `fetch` as it is, and whoever would listen by node:http
// is told so.
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertRefused, folder, root, serverFile } from '../support/process.js';
import { key, program } from './scene.js';

const runtimes = { bun: ['run'], deno: ['run', '--allow-all'] } as const;

const serving = `
import { createPetstore } from ${JSON.stringify(join(root, 'dist/index.js'))};
const { fetch, listen } = createPetstore({ keys: ['${key}'] });
console.log(await listen({ port: 0 }).catch(String));
const options = { port: 0, hostname: '127.0.0.1', onListen() {} };
const { port } = 'Bun' in globalThis ? Bun.serve({ ...options, fetch }) : Deno.serve(options, fetch).addr;
console.log('port ' + port);
`;

for (const [name, args] of Object.entries(runtimes)) {
  const command = join(root, 'test/ecosystem/node_modules/.bin', name);

  test(`${name}: serves fetch unbound, and says of listen what to do instead`, async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'serve.mjs'), serving);
    const server = program(t, cwd, command, ...args, 'serve.mjs');
    const port = await server.found((line) => /^port (\d+)$/.exec(line)?.[1]);
    assert.ok(port !== undefined, server.output);
    const line =
      'node:http here lacks what listen needs; give petstore.fetch to Bun.serve or Deno.serve';
    assert.equal(server.lines[0], `TypeError: ${line}`);

    const pets = `http://127.0.0.1:${port}/v1/pets`;
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const animal = '{"name":"Rex 🐕","categoryId":9223372036854775807}';
    const stored = `{"id":1,${animal.slice(1)}`;
    const added = await fetch(pets, { method: 'POST', headers, body: animal });
    assert.deepEqual([added.status, added.headers.get('Location')], [201, '/v1/pets/1']);
    assert.equal(await added.text(), stored);
    assert.equal(await (await fetch(`${pets}/1`, { headers })).text(), stored);
    const listed = await fetch(`${pets}?limit=1`, { headers });
    assert.deepEqual(
      [await listed.text(), listed.headers.get('Cache-Control')],
      [`[${stored}]`, 'no-store'],
    );
    const head = await fetch(`${pets}/1`, { method: 'HEAD', headers });
    assert.deepEqual([head.status, await head.text()], [200, '']);

    const errors: unknown[] = [];
    for (const [url, init] of [
      [`${pets}/2`, { headers }],
      [pets, {}],
      [pets, { method: 'POST', headers, body: '{"name":' }],
      [pets, { method: 'POST', headers, body: 'x'.repeat(70_000) }],
      [pets, { method: 'DELETE', headers }],
    ] as const) {
      const answer = await fetch(url, init);
      const { code, status } = Object(await answer.json());
      assert.equal(answer.status, status);
      errors.push(code);
    }
    assert.deepEqual(errors, [
      'not_found',
      'unauthorized',
      'invalid_json',
      'content_too_large',
      'method_not_allowed',
    ]);
  });

  test(`${name}: the command line refuses to serve in one line, and makes no file`, async (t) => {
    const cwd = folder(t);
    const refused = program(t, cwd, command, ...args, serverFile, '--dev');
    assert.equal(await refused.found((line) => line), undefined);
    const line =
      /^a server needs Node; on this runtime give petstore\.fetch to Bun\.serve or Deno\.serve$/m;
    assertRefused(await refused.ended, 2, line);
    assert.deepEqual(readdirSync(cwd), []);
  });
}
