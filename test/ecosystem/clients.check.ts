// Tests the clients of docs/clients.md again, with the packages of the generated client installed,
// and runs the TypeScript example in a new folder, as it is printed.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createPetstore } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import '../standalone/clients.test.js';
import { atEnd } from '../support/at-end.js';
import { folder, root } from '../support/process.js';
import { run } from './scene.js';

test('the TypeScript example of docs/clients.md runs in a new folder as it is printed', async (t) => {
  const faults = faultsPlugin({ rules: [{ method: 'POST', fault: 'drop,after', times: 1 }] });
  const { listen, close, storage } = createPetstore({ keys: ['secret'], plugins: [faults] });
  atEnd(t, close);
  const { url } = await listen({ port: 0 });
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
});
