// Runs the TypeScript example of docs/clients.md in a new folder, as it is printed. The other
// clients are tested by test/standalone/clients.test.ts.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createPetstore } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { atEnd } from '../support/at-end.js';
import { folder, root } from '../support/process.js';
import { run } from './scene.js';

test('the TypeScript example of docs/clients.md runs in a new folder as it is printed', async (t) => {
  const rules = ['drop,after', 'status=503,html,retry-after=date'].map((fault) => ({
    method: 'POST',
    fault,
    times: 1,
  }));
  const faults = faultsPlugin({ rules });
  const { listen, close, storage } = createPetstore({ keys: ['secret'], plugins: [faults] });
  atEnd(t, close);
  const { url } = await listen({ port: 0 });
  // The client compares the HTTP date with the clock of the server.
  await faults.reset({ clock: '2030-01-01T00:00:00Z' });
  const document = readFileSync(join(root, 'docs/clients.md'), 'utf8');
  const [, chapter = ''] = /^## TypeScript.*?\n(.*?)^## /ms.exec(document) ?? [];
  const blocks = [...chapter.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  assert.deepEqual(
    blocks.map(([, language]) => language),
    ['sh', 'typescript', 'sh'],
  );

  const cwd = folder(t);
  let printed = '';
  for (const [, language, block = ''] of blocks) {
    const code = block.replaceAll('http://127.0.0.1:3000', url);
    const [, name = ''] = /^\/\/ (\S+)$/m.exec(code) ?? [];
    if (language === 'typescript') writeFileSync(join(cwd, name), code);
    else printed = await run(t, cwd, 'sh', '-ec', code);
  }
  assert.equal(printed, '{"id":1,"name":"Rex","categoryId":5}\n');
  assert.equal((await storage.list({ limit: 9 })).length, 1);
  const attempts = faults.requests({ method: 'POST' });
  assert.deepEqual(
    attempts.map(({ cut, replayed }) => [cut, replayed]),
    [
      [true, false],
      [false, false],
      [false, true],
    ],
  );
  const [, second = 0, third = 0] = attempts.map(({ time }) => Date.parse(time));
  assert.ok(third - second >= 950, `${third - second} ms in spite of Retry-After`);

  const compilerOptions = {
    module: 'nodenext',
    target: 'es2022',
    strict: true,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
  };
  writeFileSync(
    join(cwd, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, include: ['*.mts'] }),
  );
  await run(t, cwd, process.execPath, join(root, 'node_modules/typescript/bin/tsc'));
});
