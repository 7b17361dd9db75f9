// Keys: made, listed, revoked, expired, and changed under a running server (C40, C41).
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { Agent, get } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { apiKey, assertRefused, StartedProcess, serverFile } from '../support/process.js';
import { until } from '../support/waiting.js';
import { testRefusals, WorkingFolder } from '../support/working-folder.js';

const memory = { PETSTORE_STORAGE: 'memory:' };
const unkeyed = { ...memory, PETSTORE_API_KEYS: '' };

async function addKey(
  here: WorkingFolder,
  name: string,
  ...args: readonly string[]
): Promise<string> {
  const { code, stdout, stderr } = await here.command(['keys', 'add', name, ...args]);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

function entry(name: string, key: string, more: object = {}): object {
  return {
    name,
    sha256: createHash('sha256').update(key).digest('hex'),
    created: '2026-11-20T08:00:00Z',
    ...more,
  };
}

function keysFile(here: WorkingFolder, ...keys: readonly object[]): string {
  here.write('data/keys.json', JSON.stringify({ keys }));
  return here.at('data/keys.json');
}

describe('the keys command', { concurrency: 4 }, () => {
  test('C40: keys add prints psk_ and 43 base64url characters once, and stores its digest, mode 600 in a folder of mode 700', async (t) => {
    const here = new WorkingFolder(t);
    const { code, stdout, stderr } = await here.run('keys add alice');
    assert.equal(code, 0);
    assert.match(stdout, /^psk_[A-Za-z0-9_-]{43}\n$/);
    assert.match(stderr, /data\/keys\.json/);
    const text = here.read('data/keys.json');
    assert.ok(!text.includes(stdout.trim()));
    assert.equal(
      JSON.parse(text).keys[0].sha256,
      createHash('sha256').update(stdout.trim()).digest('hex'),
    );
    assert.equal(statSync(here.at('data/keys.json')).mode & 0o777, 0o600);
    assert.equal(statSync(here.at('data')).mode & 0o777, 0o700);
    assert.deepEqual(here.names('data'), ['keys.json']);
  });

  test('keys list prints names and times, never a key or a digest; keys revoke takes one out', async (t) => {
    const here = new WorkingFolder(t);
    const key = await addKey(here, 'alice');
    await addKey(here, 'bob the builder', '--expires', '90d');
    const { stdout } = await here.command('keys list');
    assert.match(
      stdout,
      /^alice +created \d{4}-\S+Z +never expires\nbob the builder +created \S+Z +expires \S+Z\n$/,
    );
    assert.ok(!stdout.includes(key) && !/[0-9a-f]{64}/.test(stdout));
    const { code } = await here.command('keys revoke alice');
    assert.equal(code, 0);
    await here.prints('keys list', /^bob the builder [^\n]*\n$/);
  });

  for (const [text, ms] of [
    ['90d', 7_776_000_000],
    ['12h', 43_200_000],
    ['30m', 1_800_000],
    ['60s', 60_000],
  ] as const) {
    test(`--expires ${text} ends a key after that time`, async (t) => {
      const here = new WorkingFolder(t);
      await addKey(here, 'alice', `--expires=${text}`);
      const [{ created, expires }] = JSON.parse(here.read('data/keys.json')).keys;
      assert.equal(Date.parse(expires) - Date.parse(created), ms);
    });
  }

  test('an expired key is listed as expired', async (t) => {
    const here = new WorkingFolder(t);
    keysFile(here, entry('old', 'x', { expires: '2020-01-01T00:00:00Z' }));
    await here.prints('keys list', /^old .* expired 2020-01-01T00:00:00Z\n$/);
  });

  test('an expiry in a zone where it is another day than in UTC is a time, and so is the last day of a leap February', async (t) => {
    const here = new WorkingFolder(t);
    keysFile(
      here,
      entry('a', 'x', { expires: '2028-02-29T23:30:00-05:00' }),
      entry('b', 'y', { expires: '2028-03-01T00:30:00+05:00' }),
      entry('c', 'z', { expires: '2028-02-29' }),
    );
    assert.equal((await here.command('keys list')).stdout.match(/ expires 2028/g)?.length, 3);
  });

  testRefusals([
    ['nothing to do', 'keys', /add NAME, list, revoke NAME/],
    ['an unknown action', 'keys remove x', /add NAME, list, revoke NAME/],
    ['no name', 'keys add', /NAME/],
    ['two names', 'keys add a b', /one NAME/],
    ['an empty name', ['keys', 'add', ''], /1 to 100/],
    ['a name of two lines', ['keys', 'add', 'a\nb'], /1 to 100/],
    ...['dev', 'env-1', 'env-20'].map(
      (name) =>
        [
          `the reserved name ${name}`,
          ['keys', 'add', name],
          /is reserved .*--dev .*PETSTORE_API_KEYS.*another/,
        ] as const,
    ),
    ['a name for the list', 'keys list a', /no name/],
    ['revoking an unknown name', 'keys revoke nobody', /no key named nobody/],
    ...['90', 'd', '0d', '1.5h', '-1d', '1w', '90D', '99999999d'].map(
      (time) =>
        [
          `the time ${time}`,
          ['keys', 'add', 'a', `--expires=${time}`],
          /^--expires must be a time such as 90d/,
        ] as const,
    ),
    ['--expires for the list', 'keys list --expires 1d', /--expires/],
    [
      'a file that cannot be made',
      'keys add a --keys-file /proc/keys.json',
      /\/proc\/keys\.json.*--keys-file/,
    ],
    [
      'a folder that cannot be made, below which Node’s recursive mkdir never ends',
      'keys add a --keys-file /proc/foo/bar/keys.json',
      /ENOENT.*--keys-file/,
    ],
    [
      'a device, which never ends',
      'keys add a --keys-file /dev/zero',
      /\/dev\/zero.*no regular file/,
    ],
  ]);

  test('a name that is taken is refused with exit 2 and the file stays', async (t) => {
    const here = new WorkingFolder(t);
    await addKey(here, 'alice');
    const before = here.read('data/keys.json');
    await here.refuses('keys add alice', 2, /named alice/);
    await here.refuses('keys revoke bob', 2, /no key named bob/);
    assert.equal(here.read('data/keys.json'), before);
  });

  test('behind -- all is a name, and a flag may stand anywhere before', async (t) => {
    const here = new WorkingFolder(t);
    assert.equal((await here.command('--expires 1d keys add -- --alice')).code, 0);
    await here.prints('keys list', /^--alice .* expires/);
  });

  test('--keys-file and PETSTORE_KEYS_FILE name another file', async (t) => {
    const here = new WorkingFolder(t);
    await addKey(here, 'alice', '--keys-file', 'one.json');
    await here.command('keys add bob', { PETSTORE_KEYS_FILE: 'one.json' });
    assert.deepEqual(here.names(), ['one.json']);
    assert.equal(
      (await here.command('keys list --keys-file=one.json')).stdout.split('\n').length,
      3,
    );
  });

  test('of many keys added at once none is lost', async (t) => {
    const here = new WorkingFolder(t);
    const names = Array.from({ length: 12 }, (_, index) => `key${index}`);
    const made = await Promise.all(names.map((name) => addKey(here, name)));
    assert.equal(new Set(made).size, names.length);
    const { keys } = JSON.parse(here.read('data/keys.json'));
    assert.deepEqual(keys.map(({ name }: { name: string }) => name).sort(), [...names].sort());
    assert.deepEqual(here.names('data'), ['keys.json']);
  });

  test('a link under the name of a temporary file is not followed', async (t) => {
    const here = new WorkingFolder(t);
    mkdirSync(here.at('data'));
    here.write('victim', 'as it was');
    const shell = 'ln -s ../victim "data/keys.json.$$.tmp"; exec "$0" "$1" keys add alice';
    const { code, stderr } = await new StartedProcess(
      'sh',
      ['-c', shell, process.execPath, serverFile],
      { cwd: here.path },
    ).ended;
    assert.equal(code, 0, stderr);
    assert.equal(here.read('victim'), 'as it was');
    assert.ok(lstatSync(here.at('data/keys.json')).isFile());
  });

  test('behind a link the file is changed that it leads to, and the link stays; a link to nothing is refused', async (t) => {
    const here = new WorkingFolder(t);
    mkdirSync(here.at('real'));
    symlinkSync('real', here.at('folder'));
    await addKey(here, 'carol', '--keys-file', 'folder/keys.json');
    symlinkSync('../folder/keys.json', here.at('real/other.json'));
    symlinkSync('folder/other.json', here.at('link.json'));
    for (const name of ['alice', 'bob']) await addKey(here, name, '--keys-file', 'link.json');
    const { code, stderr } = await here.command('keys revoke alice --keys-file link.json');
    assert.equal(code, 0, stderr);
    const { keys } = JSON.parse(here.read('real/keys.json'));
    assert.deepEqual(
      keys.map(({ name }: { name: string }) => name),
      ['carol', 'bob'],
    );
    assert.deepEqual(here.names('real'), ['keys.json', 'other.json']);
    for (const link of ['link.json', 'real/other.json'])
      assert.ok(lstatSync(here.at(link)).isSymbolicLink(), link);
    await here.refuses('keys add bob --keys-file link.json', 2, /named bob in link\.json/);
    symlinkSync('loop.json', here.at('loop.json'));
    symlinkSync('nowhere.json', here.at('dangling.json'));
    for (const file of ['loop.json', 'dangling.json']) {
      const ended = await here.command(['keys', 'add', 'bob', '--keys-file', file]);
      assertRefused(ended, 2, new RegExp(`^keys file ${file} cannot be written .*--keys-file`));
      assert.ok(lstatSync(here.at(file)).isSymbolicLink(), file);
    }
  });

  const badFiles: readonly (readonly [string, string])[] = [
    ['no JSON', '{'],
    ['an array', '[]'],
    ['no keys', '{}'],
    ['keys that are no array', '{"keys":{}}'],
    ['an unknown member', '{"keys":[],"version":1}'],
    ['a key that is no object', '{"keys":["psk_x"]}'],
    ['no name', JSON.stringify({ keys: [{ ...entry('a', 'x'), name: undefined }] })],
    ['a short digest', JSON.stringify({ keys: [entry('a', 'x', { sha256: 'abc' })] })],
    ['no creation time', JSON.stringify({ keys: [entry('a', 'x', { created: undefined })] })],
    [
      'an expiry that is no time',
      JSON.stringify({ keys: [entry('a', 'x', { expires: 'tomorrow' })] }),
    ],
    [
      'an expiry that is no day of the calendar',
      JSON.stringify({ keys: [entry('a', 'x', { expires: '2027-13-01' })] }),
    ],
    [
      'an expiry on 31 February',
      JSON.stringify({ keys: [entry('a', 'x', { expires: '2027-02-31' })] }),
    ],
    [
      'an expiry on 29 February of no leap year',
      JSON.stringify({ keys: [entry('a', 'x', { expires: '2027-02-29T23:30:00-05:00' })] }),
    ],
    [
      'an expiry without a zone',
      JSON.stringify({ keys: [entry('a', 'x', { expires: '2027-01-01T00:00:00' })] }),
    ],
    [
      'a misspelt expiry',
      JSON.stringify({ keys: [entry('a', 'x', { expire: '2027-01-01T00:00:00Z' })] }),
    ],
    ['the name of the key of --dev', JSON.stringify({ keys: [entry('dev', 'x')] })],
    ['the name of a key of PETSTORE_API_KEYS', JSON.stringify({ keys: [entry('env-1', 'x')] })],
    [
      'a member twice',
      JSON.stringify({ keys: [entry('a', 'x')] }).replace('"name"', '"name":"b","name"'),
    ],
    ['a name twice', JSON.stringify({ keys: [entry('a', 'x'), entry('a', 'y')] })],
  ];
  for (const [what, text] of badFiles) {
    test(`a keys file with ${what} is refused with exit 2 and left as it is`, async (t) => {
      const here = new WorkingFolder(t);
      const path = keysFile(here);
      writeFileSync(path, text);
      await here.refuses('keys add new', 2, /keys file data\/keys\.json/);
      assert.equal(readFileSync(path, 'utf8'), text);
      assert.deepEqual(here.names('data'), ['keys.json']);
    });
  }

  test('a start is refused with exit 2 by a bad keys file as well, which both read alike', async (t) => {
    const here = new WorkingFolder(t);
    writeFileSync(keysFile(here), '{');
    const ended = await here.run('', { PORT: '0', PETSTORE_API_KEYS: apiKey });
    assertRefused(ended, 2, /keys file data\/keys\.json/);
    assert.deepEqual(here.names('data'), ['keys.json']);
  });

  test('a missing member of a keys file is told as missing', async (t) => {
    const here = new WorkingFolder(t);
    writeFileSync(
      keysFile(here),
      JSON.stringify({ keys: [entry('a', 'x', { sha256: undefined })] }),
    );
    const line =
      /^keys file data\/keys\.json cannot be used: key 1: "sha256" is missing; it must be 64 hexadecimal digits/;
    await here.refuses('keys list', 2, line);
  });
});

describe('keys of a running server', { concurrency: 4 }, () => {
  test('C40: any active key of the environment and the file is accepted', async (t) => {
    const here = new WorkingFolder(t);
    const alice = await addKey(here, 'alice');
    const server = await here.start('', { ...memory, PETSTORE_API_KEYS: ' one ,, two,' });
    for (const key of [alice, 'one', 'two'])
      assert.equal((await server.get('/v1/pets', key)).status, 200, key);
    const [{ sha256 }] = JSON.parse(here.read('data/keys.json')).keys;
    for (const key of ['alice', 'three', 'one,', sha256])
      assert.equal((await server.get('/v1/pets', key)).status, 401);
  });

  test('C41: outside /v1 no key is needed', async (t) => {
    const server = await new WorkingFolder(t).start('', memory);
    for (const path of ['/openapi.json', '/healthz', '/readyz'])
      assert.equal((await fetch(server.url + path)).status, 200, path);
    assert.equal((await fetch(`${server.url}/v1/pets`)).status, 401);
  });

  test('a key ends when it expires; a start with expired keys alone is refused', async (t) => {
    const here = new WorkingFolder(t);
    const key = await addKey(here, 'alice', '--expires', '1h');
    const server = await here.start('', unkeyed);
    assert.equal((await server.get('/v1/pets', key)).status, 200);
    // Set to end only now: a busy machine takes its time to start a server.
    const path = here.at('data/keys.json');
    const { keys } = JSON.parse(readFileSync(path, 'utf8'));
    const expires = new Date(Date.now() + 1_000).toISOString();
    writeFileSync(path, JSON.stringify({ keys: [{ ...keys[0], expires }] }));
    server.child.kill('SIGHUP');
    await until(
      'the end of the key',
      async () => (await server.get('/v1/pets', key)).status === 401,
    );
    assert.ok(Date.now() >= Date.parse(expires));
    await here.refuses('', 2, /every API key has expired/, { ...memory, PORT: '0' });
  });

  /** Two seconds, and as many again for each that a busy machine takes for anything. */
  const followedMs = 8_000;
  test('a key that is added, then revoked, is followed within seconds', async (t) => {
    const here = new WorkingFolder(t);
    await addKey(here, 'alice');
    const server = await here.start('', unkeyed);
    const bob = await addKey(here, 'bob');
    const addedAt = performance.now();
    await until('the new key', async () => (await server.get('/v1/pets', bob)).status === 200);
    assert.ok(performance.now() - addedAt < followedMs);
    assert.equal((await server.said('keys read again'))['keys'], 2);
    await here.command('keys revoke bob');
    const revokedAt = performance.now();
    await until(
      'the end of the key',
      async () => (await server.get('/v1/pets', bob)).status === 401,
    );
    assert.ok(performance.now() - revokedAt < followedMs);
    assert.ok(!server.stdout.includes(bob));
  });

  test('a file of the same size, rewritten in place, is seen too; SIGHUP makes it at once', async (t) => {
    const here = new WorkingFolder(t);
    const path = keysFile(here, entry('a', 'one'));
    const server = await here.start('', unkeyed);
    writeFileSync(path, JSON.stringify({ keys: [entry('a', 'two')] }));
    server.child.kill('SIGHUP');
    await server.said('keys read again');
    assert.equal((await server.get('/v1/pets', 'two')).status, 200);
    assert.equal((await server.get('/v1/pets', 'one')).status, 401);
  });

  test('a bad file, and one that vanished, leave the last good keys, and the log says why', async (t) => {
    const here = new WorkingFolder(t);
    const path = keysFile(here, entry('a', 'one'));
    const server = await here.start('', unkeyed);
    writeFileSync(path, '{"keys":[');
    const warning = await server.said('keys not read again: the last good ones stay');
    assert.equal(warning['level'], 'warn');
    assert.match(String(warning['error']), /data\/keys\.json.*Not valid JSON/);
    assert.equal((await server.get('/v1/pets', 'one')).status, 200);
    rmSync(path);
    await until(
      'a second warning',
      () => server.log.filter(({ level }) => level === 'warn').length === 2,
    );
    assert.equal((await server.get('/v1/pets', 'one')).status, 200);
    writeFileSync(`${path}.new`, JSON.stringify({ keys: [entry('a', 'two')] }));
    renameSync(`${path}.new`, path);
    await until('the new key', async () => (await server.get('/v1/pets', 'two')).status === 200);
    assert.equal((await server.get('/v1/pets', 'one')).status, 401);
  });

  test('a change that cannot be read, for lack of descriptors, is tried again each second; the log says so once', async (t) => {
    const here = new WorkingFolder(t);
    const path = keysFile(here, entry('a', 'one'), entry('b', 'two'));
    // Keeps every descriptor but one, which is that of the answer's own socket, until it is told to
    // free them.
    here.write(
      'plugin.mjs',
      `import { closeSync, openSync } from 'node:fs';
      const held = [];
      const answer = { status: 200, headers: [], body: '1' };
      export default (host) => {
        const take = () => { try { for (;;) held.push(openSync('/dev/null')); } catch { return answer; } };
        const free = () => { held.splice(0).forEach((descriptor) => closeSync(descriptor)); return answer; };
        host.route({ path: '/take', methods: { GET: { handler: take } } });
        host.route({ path: '/free', methods: { GET: { handler: free } } });
      };`,
    );
    const server = await here.start('--plugin ./plugin.mjs', unkeyed);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    atEnd(t, () => agent.destroy());
    const status = (path: string, key: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const request = get(
          server.url + path,
          { agent, headers: { Authorization: `Bearer ${key}` } },
          (response) => response.resume().once('end', () => resolve(response.statusCode)),
        );
        request.once('error', reject);
      });
    assert.equal(await status('/take', 'one'), 200);
    writeFileSync(path, JSON.stringify({ keys: [entry('b', 'two')] }));
    const warnings = (): number => server.log.filter(({ level }) => level === 'warn').length;
    const warning = await server.said('keys not read again: the last good ones stay');
    assert.match(String(warning['error']), /EMFILE/);
    // Two more tries and their second between them, in which nothing new is said.
    await wait(2_500);
    assert.equal(warnings(), 1);
    assert.equal(await status('/v1/pets', 'one'), 200);
    assert.equal(await status('/free', 'one'), 200);
    await until('the end of the key', async () => (await status('/v1/pets', 'one')) === 401);
    assert.equal(await status('/v1/pets', 'two'), 200);
    await server.said('keys read again');
    assert.equal(warnings(), 1);
  });

  test('the default file is followed even where it came after the start', async (t) => {
    const here = new WorkingFolder(t);
    const server = await here.start('', memory);
    const alice = await addKey(here, 'alice');
    await until('the new key', async () => (await server.get('/v1/pets', alice)).status === 200);
    assert.equal((await server.get('/v1/pets')).status, 200);
  });

  test('revoking the last key locks everyone out, and the server stays', async (t) => {
    const here = new WorkingFolder(t);
    const alice = await addKey(here, 'alice');
    const server = await here.start('', unkeyed);
    await here.command('keys revoke alice');
    await until(
      'the end of the key',
      async () => (await server.get('/v1/pets', alice)).status === 401,
    );
    assert.equal((await server.get('/healthz')).status, 200);
  });
});
