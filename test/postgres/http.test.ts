// The whole HTTP suite once more, with PostgreSQL beneath.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { atEnd } from '../at-end.js';
import { adminUrl, withoutDatabase } from './database.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

test('the HTTP suite passes on PostgreSQL', { skip: withoutDatabase(), timeout: 290_000 }, async (t) => {
  const files = readdirSync(join(root, 'test/http')).filter((file) => file.endsWith('.test.ts'));
  assert.ok(files.length > 10);
  // A test runner within a test is one of its own only where it knows of no other.
  const { NODE_TEST_CONTEXT: _outer, ...env } = process.env;
  const args = [
    '--import',
    'tsx',
    '--test',
    '--test-reporter=tap',
    '--test-timeout=120000',
    '--test-concurrency=3',
    ...files.map((file) => `test/http/${file}`),
  ];
  const suite = spawn(process.execPath, args, {
    cwd: root,
    env: { ...env, PETSTORE_TEST_STORAGE: 'postgres', PETSTORE_TEST_POSTGRES_URL: await adminUrl() },
    stdio: ['ignore', 'pipe', 'inherit'],
    // With its own children it can be ended only as a group.
    detached: true,
  });
  const { pid } = suite;
  assert.ok(pid !== undefined);
  atEnd(t, () => {
    if (suite.exitCode === null && suite.signalCode === null) process.kill(-pid, 'SIGKILL');
  });
  let said = '';
  suite.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  const code = await new Promise((resolve) => suite.once('close', resolve));
  assert.equal(
    code,
    0,
    said
      .split('\n')
      .filter((line) => /not ok|error:|expected|actual/.test(line))
      .join('\n'),
  );
  assert.match(said, /^# pass 1[0-9][0-9]$/m);
});
