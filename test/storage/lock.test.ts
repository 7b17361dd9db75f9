import assert from 'node:assert/strict';
import {
  closeSync,
  constants,
  linkSync,
  openSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { checkFile, fileStorage } from '../../dist/file/index.js';
import { isHeldElsewhere, lockingOn, nodeDisk } from '../../dist/journal/index.js';
import { fileWith, inUse, newPath, rex, unusable } from './scene.js';
import { systemError } from '../support/disk.js';
import {
  StartedProcess,
  assertRefused,
  extension,
  extensionArgs,
  folder,
  root,
  runServer,
} from '../support/process.js';

const writer = join(import.meta.dirname, `writer${extension}`);

/** Expects that a file is refused, because this process has its lock. */
const expectInUse = (path: string, pid: number) =>
  assert.rejects(fileStorage(path), {
    ...inUse,
    message: new RegExp(`in use by process ${pid}\\b`),
  });

test('F4 gives the file to one of several processes, until kill -9 ends that process', async () => {
  const path = newPath();
  // Another locked file, whose owner must not be named.
  const other = await fileStorage(newPath());
  const args = [...extensionArgs, writer, path];
  const starters = Array.from(
    { length: 3 },
    () => new StartedProcess(process.execPath, args, { cwd: root }),
  );
  const said = await Promise.all(starters.map((starter) => starter.findLine((line) => line)));
  const owner = starters[said.indexOf('open 0')] ?? assert.fail(said.join('\n'));
  const refusal = new RegExp(`^refused .* in use by process ${owner.pid}\\b`);
  assert.equal(said.filter((line = '') => refusal.test(line)).length, 2, said.join('\n'));
  owner.signal('SIGSTOP');
  await expectInUse(path, owner.pid);
  for (const starter of starters) starter.signal('SIGKILL');
  await Promise.all(starters.map(({ ended }) => ended));
  await (await fileStorage(path)).close();
  await other.close();
});

test('F4 refuses a second storage in one process, also through a hard link or a symlink', async () => {
  const path = fileWith('');
  linkSync(path, `${path}.hard`);
  symlinkSync(path, `${path}.soft`);
  const names = [path, `${path}.hard`, `${path}.soft`];
  for (const name of names) {
    const storage = await fileStorage(name);
    for (const other of names) await expectInUse(other, process.pid);
    await storage.insert(rex);
    await storage.close();
  }
  const { verdict, animals } = await checkFile(path);
  assert.deepEqual([verdict, animals], ['sound', 3]);
});

test('F4 refuses to lock without the program flock, and names the package to install', async () => {
  const path = fileWith('');
  linkSync(path, `${path}.hard`);
  for (const name of [path, `${path}.hard`]) {
    const descriptor = openSync(name, 'r+');
    await assert.rejects(lockingOn('linux', '/no/such/program').lock(descriptor, name), {
      ...unusable,
      message: `${name} cannot be locked: there is no program flock on this system; install the package util-linux, which has it`,
    });
    closeSync(descriptor);
  }
  assert.deepEqual(
    readdirSync(dirname(path)).sort(),
    ['pets.jsonl', 'pets.jsonl.hard'],
    'creates no lock file',
  );
});

test('F4 exits with 3 without the program flock', {
  skip: process.platform === 'linux' ? false : 'only Linux uses flock',
}, async (t) => {
  const args = ['--port', '0', '--storage', `file:${newPath()}`];
  const env = { PATH: '/nowhere', PETSTORE_API_KEYS: 'key' };
  assertRefused(
    await runServer(args, { cwd: folder(t), env }),
    3,
    /there is no program flock on this system; install the package util-linux/,
  );
});

test('F4 refuses a file if flock fails or cannot be run, and gives the reason', async () => {
  const path = fileWith('');
  const descriptor = openSync(path, 'r+');
  const failing = `${path}.flock`;
  writeFileSync(failing, '#!/bin/sh\necho "flock: 3: No locks available" >&2\nexit 69\n', {
    mode: 0o700,
  });
  const refusals = [
    [failing, /cannot be locked: .*disk that has locks \(flock: 3: No locks available\)$/],
    [dirname(path), /cannot be locked: .*EACCES/],
  ] as const;
  for (const [program, message] of refusals)
    await assert.rejects(lockingOn('linux', program).lock(descriptor, path), {
      ...unusable,
      message,
    });
  closeSync(descriptor);
});

test('locks a file when it is opened on macOS, the BSDs and Windows', async () => {
  for (const platform of ['darwin', 'freebsd', 'openbsd', 'netbsd'] as const)
    assert.equal(lockingOn(platform).lockFlags, 0x20 | constants.O_NONBLOCK);
  assert.equal(lockingOn('win32').lockFlags, 0x1000_0000);
  assert.equal(lockingOn('linux').lockFlags, 0);
  for (const platform of ['darwin', 'win32'] as const) await lockingOn(platform).lock(-1, '');
  assert.ok(isHeldElsewhere(systemError('EAGAIN')) && isHeldElsewhere(systemError('EBUSY')));
  assert.equal(isHeldElsewhere(systemError('EACCES')), false);
});

test('F4 refuses a file as in use if opening it reports a lock', async () => {
  const disk = { ...nodeDisk, open: () => Promise.reject(systemError('EAGAIN')) };
  await assert.rejects(fileStorage(newPath(), { disk }), inUse);
});
