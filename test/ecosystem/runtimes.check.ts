// Tests Bun and Deno: their own servers serve `fetch`, and `listen` throws with a hint to use it.
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertRefused, folder, root, serverFile } from '../support/process.js';
import { key, program, useMounted } from './scene.js';

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

  test(`${name} serves the unbound fetch, and listen throws with a hint to use fetch`, async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'serve.mjs'), serving);
    const server = program(t, cwd, command, ...args, 'serve.mjs');
    const port = await server.findLine((line) => /^port (\d+)$/.exec(line)?.[1]);
    assert.ok(port !== undefined, server.output);
    const line =
      'listen works only on Node.js; pass petstore.fetch to Bun.serve or Deno.serve instead';
    assert.equal(server.lines[0], `TypeError: ${line}`);

    await useMounted(`http://127.0.0.1:${port}`);
  });

  test(`${name} refuses to run the server from the command line, and creates no file`, async (t) => {
    const cwd = folder(t);
    const refused = program(t, cwd, command, ...args, serverFile, '--dev');
    assert.equal(await refused.findLine((line) => line), undefined);
    const line =
      /^a server needs Node; on this runtime give petstore\.fetch to Bun\.serve or Deno\.serve$/m;
    assertRefused(await refused.ended, 2, line);
    assert.deepEqual(readdirSync(cwd), []);
  });
}
