// Taking turns at a file: by a lock that ends with its owner's work, and that a person deletes
// where that died. And the folders of a file that is new.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { replaceFile } from '../../dist/cli/keys.js';
import { testInFolder } from '../support/working-folder.js';

testInFolder(
  'a lock that is held is waited for, and then refused with what to do',
  { 'keys.json.lock': '' },
  async (here) => {
    const path = here.at('keys.json');
    await assert.rejects(
      replaceFile(path, () => assert.fail('worked'), 100),
      {
        name: 'Refusal',
        message: `${path}.lock is held by another process; try again, or delete it if there is none`,
      },
    );
    assert.deepEqual(here.names(), ['keys.json.lock']);
    setTimeout(() => rmSync(`${path}.lock`), 50);
    await replaceFile(path, () => 'worked');
    assert.equal(here.read('keys.json'), 'worked');
    assert.equal(here.mode('keys.json'), 0o600);
    assert.deepEqual(here.names(), ['keys.json']);
  },
);

testInFolder('the folders of a new file are made with it, each of mode 700', async (here) => {
  await replaceFile(here.at('deep/er/keys.json'), () => 'worked');
  for (const name of ['deep', 'deep/er']) assert.equal(here.mode(name), 0o700, name);
  assert.equal(here.read('deep/er/keys.json'), 'worked');
});

testInFolder(
  'work that fails leaves the file as it was, and no lock',
  { 'keys.json': 'as it was' },
  async (here) => {
    const failing = (): string => {
      throw new Error('no luck');
    };
    await assert.rejects(replaceFile(here.at('keys.json'), failing), { message: 'no luck' });
    assert.equal(here.read('keys.json'), 'as it was');
    assert.deepEqual(here.names(), ['keys.json']);
  },
);
