// Tests that each rule of the storage suites fails a storage that breaks it.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import '../support/built.js';
import { extension, extensionArgs, root, StartedProcess } from '../support/process.js';
import { faults, wrongStorages } from './wrong/table.js';

/** The results of a suite: for each storage, whether it passed each rule. */
type Results = ReadonlyMap<string, ReadonlyMap<string, boolean>>;

/** Runs a suite on a right storage and on the wrong ones, in a process of its own. */
async function resultsOf(suite: string): Promise<Results> {
  const program = join(import.meta.dirname, `wrong/run${extension}`);
  // Node warns if a wrong storage leaves a rejection unhandled.
  const args = [...extensionArgs, '--no-warnings', '--test-reporter=tap', program, suite];
  const { stdout } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;

  const results = new Map<string, ReadonlyMap<string, boolean>>();
  let rules = new Map<string, boolean>();
  // TAP prints the rules of a storage, indented, before the storage.
  for (const [, indent, verdict, name = ''] of stdout.matchAll(
    /^( {8})?((?:not )?ok) \d+ - (.+)$/gm,
  )) {
    if (indent !== undefined) {
      rules.set(name, verdict === 'ok');
    } else {
      results.set(name, rules);
      rules = new Map();
    }
  }
  return results;
}

for (const suite of Object.keys(faults))
  describe(suite, () => {
    const wrong = wrongStorages(suite);
    const results = resultsOf(suite);
    const rulesOf = async (storage: string) =>
      (await results).get(storage) ?? assert.fail(`no results of the storage "${storage}"`);
    const failuresOf = async (storage: string): Promise<readonly string[]> =>
      [...(await rulesOf(storage))].filter(([, isPassed]) => !isPassed).map(([rule]) => rule);

    test('passes a right storage', async () => {
      assert.deepEqual(await failuresOf('right'), []);
      assert.equal((await results).size, wrong.length + 1);
    });

    test('has for each rule a wrong storage that only this rule fails', async () => {
      const rules = [...(await rulesOf('right')).keys()];
      assert.ok(rules.length > 5, `only the rules ${rules}`);

      const single = new Set<string | undefined>();
      for (const { name } of wrong) {
        const failures = await failuresOf(name);
        if (failures.length === 1) single.add(failures[0]);
      }
      assert.deepEqual(
        rules.filter((rule) => !single.has(rule)),
        [],
      );
    });

    for (const { name, rule } of wrong)
      test(`fails a storage that ${name}`, async () => {
        const failures = await failuresOf(name);
        assert.ok(failures.includes(rule), `${rule}\nis not in\n${failures.join('\n')}`);
      });
  });
