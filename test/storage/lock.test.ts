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
import { fileWith, inUse, newPath, rex, unusable, using } from './scene.js';
import { systemError } from '../support/disk.js';
import {
  assertRefused,
  extension,
  extensionArgs,
  folder,
  root,
  runServer,
  StartedProcess,
} from '../support/process.js';

const writer = join(import.meta.dirname, `writer${extension}`);

/** A process that has the file, or was refused. */
class Writer extends StartedProcess {
  /** The first line that it says. */
  readonly first: Promise<string | undefined>;

  constructor(path: string, adders = 0) {
    super(process.execPath, [...extensionArgs, writer, path, String(adders)], { cwd: root });
    this.first = this.found((line) => line);
  }
}

test('F4 a second process is refused at once with the pid of the first, and kill -9 frees the file', async () => {
  const path = newPath();
  const first = new Writer(path);
  assert.equal(await first.first, 'open 0');
  await assert.rejects(fileStorage(path), {
    ...inUse,
    message: new RegExp(`in use by process ${first.pid}\\b`),
  });
  const second = new Writer(path);
  assert.match(
    (await second.first) ?? '',
    new RegExp(`^refused .* in use by process ${first.pid}\\b`),
  );
  first.signal('SIGSTOP');
  await assert.rejects(fileStorage(path), inUse);
  first.signal('SIGKILL');
  await Promise.all([first.ended, second.ended]);
  await (await fileStorage(path)).close();
});

test('F4 a second open in the same process is refused, until the first is closed', async () => {
  const path = newPath();
  const storage = await fileStorage(path);
  await assert.rejects(fileStorage(path), {
    ...inUse,
    message: new RegExp(`process ${process.pid}\\b`),
  });
  await storage.close();
  const again = await fileStorage(path);
  await again.close();
});

test('F4 of several starters exactly one gets the file', async () => {
  const path = newPath();
  const starters = Array.from({ length: 3 }, () => new Writer(path));
  const said = await Promise.all(starters.map(async (child) => (await child.first) ?? ''));
  assert.equal(said.filter((line) => line.startsWith('open')).length, 1, said.join('\n'));
  assert.equal(said.filter((line) => line.includes('in use')).length, 2, said.join('\n'));
  for (const child of starters) child.signal('SIGKILL');
  await Promise.all(starters.map((child) => child.ended));
});

test('kill -9 with many adding loses no acknowledged animal, and C31 no id is used twice', async () => {
  const path = newPath();
  const ledger = new Map<string, string>();
  for (let cycle = 1; cycle <= 3; cycle++) {
    const child = new Writer(path, 8);
    const enough = ledger.size + 40 * cycle;
    assert.match((await child.first) ?? '', /^open/);
    await child.found((line) => {
      const [id = '', ...name] = line.split(' ');
      if (id !== 'open') {
        assert.ok(!ledger.has(id), `id ${id} twice`);
        ledger.set(id, name.join(' '));
      }
      if (ledger.size >= enough) child.signal('SIGKILL');
      return undefined;
    });
    await child.ended;
  }
  assert.notEqual((await checkFile(path)).verdict, 'damaged');
  await using(path, async (storage) => {
    for (const [id, name] of ledger) assert.equal((await storage.get(BigInt(id)))?.name, name);
  });
});

test('F4 a file with two names has one owner: a hard link and a symlink are the file itself', async () => {
  const path = fileWith('');
  linkSync(path, `${path}.hard`);
  symlinkSync(path, `${path}.soft`);
  const names = [path, `${path}.hard`, `${path}.soft`];
  for (const name of names) {
    const storage = await fileStorage(name);
    for (const other of names)
      await assert.rejects(fileStorage(other), {
        ...inUse,
        message: new RegExp(`process ${process.pid}\\b`),
      });
    await storage.insert(rex);
    await storage.close();
  }
  const { verdict, animals } = await checkFile(path);
  assert.deepEqual([verdict, animals], ['sound', 3]);
});

test('F4 a Linux without the program flock is refused in one line that says how to get it, whatever the name of the file', async () => {
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
    'no lock file of any kind',
  );
});

test('F4 as a process it ends with 3 then', {
  skip: process.platform === 'linux' ? false : 'another system has no need of flock',
}, async (t) => {
  const args = ['--port', '0', '--storage', `file:${newPath()}`];
  const env = { PATH: '/nowhere', PETSTORE_API_KEYS: 'key' };
  assertRefused(
    await runServer(args, { cwd: folder(t), env }),
    3,
    /there is no program flock on this system; install the package util-linux/,
  );
});

test('F4 a flock that fails, or cannot be run now, locks nothing: the start is refused, and says why', async () => {
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

test('macOS, the BSDs and Windows lock a file as they open it', async () => {
  for (const platform of ['darwin', 'freebsd', 'openbsd', 'netbsd'] as const)
    assert.equal(lockingOn(platform).lockFlags, 0x20 | constants.O_NONBLOCK);
  assert.equal(lockingOn('win32').lockFlags, 0x1000_0000);
  assert.equal(lockingOn('linux').lockFlags, 0);
  for (const platform of ['darwin', 'win32'] as const) await lockingOn(platform).lock(-1, '');
  assert.ok(isHeldElsewhere(systemError('EAGAIN')) && isHeldElsewhere(systemError('EBUSY')));
  assert.equal(isHeldElsewhere(systemError('EACCES')), false);
});

test('F4 a file that opening finds locked is in use', async () => {
  const disk = { ...nodeDisk, open: () => Promise.reject(systemError('EAGAIN')) };
  await assert.rejects(fileStorage(newPath(), { disk }), inUse);
});
