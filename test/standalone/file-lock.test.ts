// Taking turns at a file: by a lock that ends with its owner's work, or is removed by one other where that died.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { replaceFile } from '../../dist/cli/keys.js';
import { folder } from '../support/process.js';

function staleLock(path: string): void {
  writeFileSync(`${path}.lock`, '');
  const longAgo = Date.now() / 1_000 - 11;
  utimesSync(`${path}.lock`, longAgo, longAgo);
}

test('a stale lock is left to the one who is just removing it: it may be the lock of a third by now', async (t) => {
  const cwd = folder(t);
  const path = join(cwd, 'keys.json');
  staleLock(path);
  writeFileSync(`${path}.lock.stale`, '');
  const refused = replaceFile(path, () => assert.fail('worked'), 100);
  await assert.rejects(refused, {
    name: 'Refusal',
    message: `${path}.lock is held by another process; try again, or delete it and ${path}.lock.stale if there is none`,
  });
  assert.deepEqual(readdirSync(cwd).sort(), ['keys.json.lock', 'keys.json.lock.stale']);
  rmSync(`${path}.lock.stale`);
  await replaceFile(path, () => 'worked', 100);
  assert.equal(readFileSync(path, 'utf8'), 'worked');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(cwd), ['keys.json']);
});

test('a lock that is young is waited for, and then refused', async (t) => {
  const path = join(folder(t), 'keys.json');
  writeFileSync(`${path}.lock`, '');
  await assert.rejects(
    replaceFile(path, () => assert.fail('worked'), 100),
    { name: 'Refusal', message: `${path}.lock is held by another process; try again, or delete it if there is none` },
  );
  setTimeout(() => rmSync(`${path}.lock`), 50);
  await replaceFile(path, () => 'worked');
  assert.equal(readFileSync(path, 'utf8'), 'worked');
});
