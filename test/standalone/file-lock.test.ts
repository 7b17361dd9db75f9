// Tests how a process replaces the keys file: the lock, owner and mode, and failures.
import assert from 'node:assert/strict';
import fs, { closeSync, constants } from 'node:fs';
import { mock } from 'node:test';
import { changeKeysFile } from '../../dist/cli/keys-file.js';
import { replaceFile } from '../../dist/cli/files.js';
import { nodeDisk } from '../../dist/index.js';
import { atEnd } from '../support/at-end.js';
import { systemError } from '../support/disk.js';
import { testInFolder } from '../support/working-folder.js';

testInFolder(
  'replaceFile waits for the lock, then throws a Refusal that names its owner',
  async (here) => {
    const path = here.at('keys.json');
    const lock = `${path}.lock`;
    const flags = constants.O_RDWR | constants.O_CREAT | nodeDisk.lockFlags;
    const descriptor = await nodeDisk.open(lock, flags, 0o600);
    await nodeDisk.lock(descriptor, lock);
    await assert.rejects(
      replaceFile(path, () => assert.fail('worked'), 100),
      {
        name: 'Refusal',
        message: `${lock} is in use by process ${process.pid}; try again when that process has ended`,
      },
    );
    assert.deepEqual(here.names(), ['keys.json.lock']);
    setTimeout(() => closeSync(descriptor), 50);
    await replaceFile(path, () => 'worked', 60_000);
    assert.equal(here.read('keys.json'), 'worked');
    assert.equal(here.mode('keys.json'), 0o600);
    assert.deepEqual(here.names(), ['keys.json']);
  },
);

testInFolder(
  'replaceFile takes over the lock of a process that was killed',
  { 'keys.json.lock': 'half of a te' },
  async (here) => {
    fs.chmodSync(here.at('keys.json.lock'), 0o666);
    await replaceFile(here.at('keys.json'), () => 'worked');
    assert.equal(here.read('keys.json'), 'worked');
    assert.equal(here.mode('keys.json'), 0o600);
    assert.deepEqual(here.names(), ['keys.json']);
  },
);

testInFolder('replaceFile creates missing folders with mode 700', async (here) => {
  await replaceFile(here.at('deep/er/keys.json'), () => 'worked');
  for (const name of ['deep', 'deep/er']) assert.equal(here.mode(name), 0o700, name);
  assert.equal(here.read('deep/er/keys.json'), 'worked');
});

testInFolder(
  'replaceFile leaves the file unchanged and removes the lock if its text cannot be made',
  { 'keys.json': 'unchanged' },
  async (here) => {
    const failing = (): string => {
      throw new Error('no luck');
    };
    await assert.rejects(replaceFile(here.at('keys.json'), failing), { message: 'no luck' });
    assert.equal(here.read('keys.json'), 'unchanged');
    assert.deepEqual(here.names(), ['keys.json']);
  },
);

for (const [what, step, code, message] of [
  [
    'the owner cannot be kept',
    'fchmodSync',
    'EPERM',
    /keys\.json cannot be replaced: its owner \d+ and group \d+ cannot be kept; run /,
  ],
  // The error of the kernel for a file that a container mounts by itself.
  [
    'the file is mounted by itself',
    'renameSync',
    'EBUSY',
    /cannot be written: it is mounted .* its folder/,
  ],
  [
    'the folder may not be written',
    'renameSync',
    'EACCES',
    /: permission denied; run the command as a user who may/,
  ],
  ['the file system is read-only', 'renameSync', 'EROFS', /: the file system is read-only; mount/],
  [
    'the disk is full',
    'fsyncSync',
    'ENOSPC',
    /cannot be written: .*; name another file with --keys-file/,
  ],
] as const)
  testInFolder(
    `changeKeysFile throws a Refusal with a hint and changes nothing if ${what}`,
    { 'keys.json': '{"keys":[]}' },
    async (here, t) => {
      const failing = mock.method(fs, step, () => {
        throw systemError(code);
      });
      atEnd(t, () => failing.mock.restore());
      await assert.rejects(
        changeKeysFile(here.at('keys.json'), (keys) => keys),
        { name: 'Refusal', message },
      );
      assert.equal(here.read('keys.json'), '{"keys":[]}');
      assert.deepEqual(here.names(), ['keys.json']);
    },
  );
