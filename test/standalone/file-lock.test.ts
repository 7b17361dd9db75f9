// Taking turns at a file: by a lock that ends with its owner's work, and that a person deletes
// where that died. And the folders of a file that is new.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { replaceFile } from '../../dist/cli/keys.js';
import { folder } from '../support/process.js';

test('a lock that is held is waited for, and then refused with what to do', async (t) => {
  const cwd = folder(t);
  const path = join(cwd, 'keys.json');
  writeFileSync(`${path}.lock`, '');
  await assert.rejects(
    replaceFile(path, () => assert.fail('worked'), 100),
    {
      name: 'Refusal',
      message: `${path}.lock is held by another process; try again, or delete it if there is none`,
    },
  );
  assert.deepEqual(readdirSync(cwd), ['keys.json.lock']);
  setTimeout(() => rmSync(`${path}.lock`), 50);
  await replaceFile(path, () => 'worked');
  assert.equal(readFileSync(path, 'utf8'), 'worked');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(cwd), ['keys.json']);
});

test('the folders of a new file are made with it, each of mode 700', async (t) => {
  const cwd = folder(t);
  const folders = [join(cwd, 'deep'), join(cwd, 'deep/er')];
  await replaceFile(join(cwd, 'deep/er/keys.json'), () => 'worked');
  assert.deepEqual(
    folders.map((path) => statSync(path).mode & 0o777),
    [0o700, 0o700],
  );
  assert.equal(readFileSync(join(cwd, 'deep/er/keys.json'), 'utf8'), 'worked');
});

test('work that fails leaves the file as it was, and no lock', async (t) => {
  const cwd = folder(t);
  const path = join(cwd, 'keys.json');
  writeFileSync(path, 'as it was');
  const failing = (): string => {
    throw new Error('no luck');
  };
  await assert.rejects(replaceFile(path, failing), { message: 'no luck' });
  assert.equal(readFileSync(path, 'utf8'), 'as it was');
  assert.deepEqual(readdirSync(cwd), ['keys.json']);
});
