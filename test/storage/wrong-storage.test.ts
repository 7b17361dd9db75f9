// Tests that `testStorage` fails wrong storages.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import '../support/built.js';
import { petFields } from '../../dist/index.js';
import { root, StartedProcess } from '../support/process.js';

/** Runs the suite on a storage whose `list` ignores `ignored`; returns the tests that fail. */
async function failuresOf(ignored: readonly string[]): Promise<readonly string[]> {
  const script = `
    import { testStorage } from './dist/conformance/index.js';
    import { memoryStorage } from './dist/index.js';

    testStorage({
      open: () => {
        const { texts, list, size, ...others } = memoryStorage();
        const ignored = Object.fromEntries(${JSON.stringify(ignored)}.map((name) => [name]));
        return { ...others, list: (query) => list({ ...query, ...ignored }) };
      },
    });`;
  const args = ['--test-reporter=tap', '--input-type=module', '--eval', script];
  const { stdout } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
  const results = [...stdout.matchAll(/^ {4}((?:not )?ok) \d+ - (.+)$/gm)];
  assert.ok(results.length > 5, stdout);
  return results.filter(([, result]) => result === 'not ok').map(([, , name = '']) => name);
}

const listRule = 'list returns the first pets that match the query, by ascending id';

test('testStorage passes a storage that obeys each member of a query', async () => {
  assert.deepEqual(await failuresOf([]), []);
});

for (const { name } of petFields.filter(({ isFilterable }) => isFilterable)) {
  test(`testStorage fails a storage that ignores the filter ${name}`, async () => {
    assert.deepEqual(await failuresOf([name]), [listRule]);
  });
}

test('testStorage fails a storage that ignores `after`', async () => {
  assert.ok((await failuresOf(['after'])).includes(listRule));
});
