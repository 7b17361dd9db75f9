// Tests the memory that cached pages take, which clients choose by their queries.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { root, StartedProcess } from '../support/process.js';

/** A script that prints the growth of the memory by the pages of `queries` queries, in bytes. */
const script = (queries: number): string => `
  import { createPetstore, memoryStorage } from ${JSON.stringify(import.meta.resolve('../../dist/index.js'))};
  const pets = Array.from({ length: 3 }, () => ({ name: 'x'.repeat(8_000), categoryId: 1n }));
  const petstore = createPetstore({ keys: ['k'], storage: memoryStorage({ pets }) });
  const headers = { Authorization: 'Bearer k' };
  const used = () => (gc(), gc(), process.memoryUsage().heapUsed);
  const before = used();
  for (let query = 0; query < ${queries}; query++)
    for (let times = 0; times < 3; times++) {
      const response = await petstore.fetch('http://any/v1/pets?limit=1&q=' + query, { headers });
      if ((await response.text()).length < 8_000) throw new Error('no pet');
    }
  console.log(used() - before);
  await petstore.close();`;

test('keeps at most 512 pages, however many queries clients use', {
  timeout: 120_000,
}, async () => {
  const args = ['--expose-gc', '--input-type=module', '-e', script(4_000)];
  const { stdout, stderr } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
  // All pages together are 32 MB, and 512 of them 4 MB.
  assert.ok(Number(stdout) < 16e6 && Number(stdout) > 1e6, `${stdout} bytes ${stderr}`);
});
