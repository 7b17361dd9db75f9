// Tests the command keys, and how a running server follows its keys (C40).
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { describe } from 'node:test';
import { atEnd } from '../support/at-end.js';
import type { StartedServer } from '../support/process.js';
import { SerialClient } from '../support/client.js';
import { requestBytes } from '../support/fixture.js';
import { until } from '../support/waiting.js';
import {
  testInFolder,
  testRefusal,
  testRefusals,
  type WorkingFolder,
} from '../support/working-folder.js';

/** The command line of a server with only the keys of its file. */
const onlyKeysFile = 'PETSTORE_API_KEYS= --storage memory:';

async function addKey(
  here: WorkingFolder,
  name: string,
  ...args: readonly string[]
): Promise<string> {
  const { stdout } = await here.done(['keys', 'add', name, ...args]);
  return stdout.trim();
}

/** Returns a key of a keys file with some members replaced. */
const entry = (name: string, key: string, more: object = {}): object => ({
  name,
  sha256: hash('sha256', key),
  created: '2026-11-20T08:00:00Z',
  ...more,
});
const textOf = (...keys: readonly object[]): string => JSON.stringify({ keys });

const file = 'data/keys.json';
const keysIn = (here: WorkingFolder) => JSON.parse(here.read(file)).keys;

describe('the keys command', { concurrency: 4 }, () => {
  testInFolder(
    'C40 keys add prints a key once and stores only its digest, with mode 600',
    async (here) => {
      const { stdout, stderr } = await here.done('keys add alice');
      assert.match(stdout, /^psk_[A-Za-z0-9_-]{43}\n$/);
      assert.match(stderr, /data\/keys\.json/);
      assert.ok(!here.read(file).includes(stdout.trim()));
      assert.equal(keysIn(here)[0].sha256, hash('sha256', stdout.trim()));
      assert.deepEqual([here.mode(file), here.mode('data')], [0o600, 0o700]);
      assert.deepEqual(here.names('data'), ['keys.json']);
    },
  );

  testInFolder(
    'keys list prints a table of names and times but no key or digest, and keys revoke removes a key',
    async (here) => {
      const key = await addKey(here, 'alice');
      await addKey(here, 'bob the builder', '--expires', '90d');
      const { stdout } = await here.command('keys list');
      const today = new RegExp(
        '^NAME {13}CREATED {5}EXPIRES\nalice {12}\\d{4}-\\d\\d-\\d\\d {2}never\n' +
          'bob the builder {2}\\d{4}-\\d\\d-\\d\\d {2}in 90 days\n$',
      );
      assert.match(stdout, today);
      assert.ok(!stdout.includes(key) && !/[0-9a-f]{64}/.test(stdout));
      await here.done('keys revoke alice');
      await here.prints('keys list', /^NAME [^\n]*\nbob the builder [^\n]*\n$/);
    },
  );

  for (const [text, ms] of [
    ['90d', 7_776_000_000],
    ['12h', 43_200_000],
    ['30m', 1_800_000],
    ['60s', 60_000],
  ] as const)
    testInFolder(`--expires ${text} sets the expiry to that time after creation`, async (here) => {
      await addKey(here, 'alice', `--expires=${text}`);
      const [{ created, expires }] = keysIn(here);
      assert.equal(Date.parse(expires) - Date.parse(created), ms);
    });

  for (const [hours, words] of [
    [90 * 24, 'in 90 days'],
    [2 * 24, 'in 2 days'],
    [2 * 24 - 1, 'in 47 hours'],
    [2, 'in 2 hours'],
    [1, 'in \\d\\d minutes'],
    [-1, 'expired \\d\\d minutes ago'],
    [-24, 'expired 24 hours ago'],
    [-400 * 24, 'expired 400 days ago'],
  ] as const)
    testInFolder(`keys list shows an expiry ${hours} hours away as ${words}`, async (here) => {
      // Ten minutes more, which a slow machine may need for the test.
      const expires = new Date(Date.now() + hours * 3_600_000 + 600_000).toISOString();
      here.write(file, textOf(entry('a', 'x', { expires })));
      await here.prints('keys list', new RegExp(`\n.*  ${words}\n$`));
    });

  for (const [what, expires, words] of [
    ['in the past is listed as expired', '2020-01-01T00:00:00Z', 'expired'],
    ['in a zone where it is still the day before is valid', '9028-02-29T23:30:00-05:00', 'in'],
    ['in a zone where it is already the day after is valid', '9028-03-01T00:30:00+05:00', 'in'],
    ['on 29 February of a leap year is valid', '9028-02-29', 'in'],
  ] as const)
    testInFolder(
      `an expiry ${what}, and --json prints it unchanged`,
      { [file]: textOf(entry('a', 'x', { expires })) },
      async (here) => {
        await here.prints('keys list', new RegExp(`  ${words} \\d+ days`));
        const [{ name, created }] = keysIn(here);
        const text = JSON.stringify([{ name, created, expires }]);
        await here.prints('keys list --json', `${text}\n`);
      },
    );

  testInFolder('keys list --json prints null for no expiry, and an empty array', async (here) => {
    await here.prints('keys list --json', '[]\n');
    await addKey(here, 'alice');
    const { stdout } = await here.done('keys list --json');
    assert.deepEqual(
      JSON.parse(stdout).map(({ name, expires }: Record<string, unknown>) => [name, expires]),
      [['alice', null]],
    );
  });

  testInFolder(
    'keys list aligns names of any script',
    { [file]: textOf(...['ab', '動物', 'e\u0301e\u0301'].map((name) => entry(name, name))) },
    async (here) => {
      const { stdout } = await here.done('keys list');
      // Two letters of Han take four columns, and a combining accent takes none.
      const cells = stdout.match(/^(?!NAME).*?(?=2026)/gm);
      assert.deepEqual(cells, ['ab    ', '動物  ', 'e\u0301e\u0301    ']);
    },
  );

  testRefusals({
    // no action
    keys: /add NAME, list, revoke NAME/,
    // an unknown action
    'keys remove x': /add NAME, list, revoke NAME, not remove; did you mean revoke\?/,
    'keys lst': /not lst; did you mean list\?/,
    // no name
    'keys add': /NAME/,
    // two names
    'keys add a b': /one NAME/,
    // a name for list
    'keys list a': /no name/,
    // revoking an unknown name
    'keys revoke nobody': /no key named nobody/,
    // --expires for list
    'keys list --expires 1d': /--expires/,
    // --json for add
    'keys add a --json': /--json is only for `keys list`/,
    // a file that cannot be created
    'keys add a --keys-file /proc/keys.json': /\/proc\/keys\.json.*--keys-file/,
    // a folder that cannot be created, in which Node’s recursive mkdir never returns
    'keys add a --keys-file /proc/foo/bar/keys.json':
      /: no such file or directory; name another file with --keys-file/,
    // an endless device
    'keys add a --keys-file /dev/zero': /\/dev\/zero is not a regular file/,
  });
  testInFolder('accepts a name of 100 characters, which keys list prints', async (here) => {
    const name = '猫'.repeat(100);
    await addKey(here, name);
    await here.prints('keys list', new RegExp(`\n${name} .*\n$`));
  });
  // an empty name
  testRefusal(['keys', 'add', ''], /1 to 100/);
  testRefusal(['keys', 'add', '猫'.repeat(101)], /1 to 100/, {}, 'a name of 101 characters');
  for (const [what, char] of Object.entries({
    'a zero-width space': '\u200b',
    'a soft hyphen': '\u00ad',
    'a byte order mark': '\ufeff',
    'a change of direction': '\u202e',
    'a combining grapheme joiner': '\u034f',
    'a Hangul filler': '\u3164',
    'a variation selector': '\ufe0f',
    'a tag': '\u{e0041}',
    'an empty Braille pattern': '\u2800',
    'a no-break space': '\u00a0',
    'an ideographic space': '\u3000',
    'a line separator': '\u2028',
    'an escape': '\u001b',
    'a C1 control': '\u009b',
    'a private-use character': '\ue000',
  })) {
    testRefusal(['keys', 'add', `a${char}b`], /1 to 100/, {}, `a name with ${what}`);
    testRefusal(
      'keys list',
      /key 1: a name must be 1 to 100/,
      { [file]: textOf(entry(`a${char}b`, 'x')) },
      `a keys file with a name with ${what}`,
    );
  }
  // a name of two lines
  testRefusal(['keys', 'add', 'a\nb'], /1 to 100/);
  for (const name of ['dev', 'env-1', 'env-20'])
    testRefusals({ [`keys add ${name}`]: /is reserved .*--dev .*PETSTORE_API_KEYS.*another/ });
  for (const time of ['90', 'd', '0d', '1.5h', '-1d', '1w', '90D', '99999999d'])
    testRefusals({
      [`keys add a --expires=${time}`]: /^--expires must be a time such as 90d/,
    });
  testRefusals(
    {
      // a name that is taken
      'keys add alice': /already has a key named alice/,
      // revoking a name that others do not have
      'keys revoke bob': /no key named bob; `node dist\/server\.js keys list` prints all names/,
      // revoking a misspelt name
      'keys revoke Alcie': /no key named Alcie; did you mean alice\?/,
    },
    { [file]: textOf(entry('alice', 'x')) },
  );

  testInFolder('accepts flags anywhere before --, and only operands after it', async (here) => {
    await here.done('--expires 1d keys add -- --alice');
    await here.prints('keys list', /^NAME .*\n--alice .* in 24 hours\n$/);
  });

  testInFolder('uses the file of --keys-file or PETSTORE_KEYS_FILE', async (here) => {
    await addKey(here, 'alice', '--keys-file', 'one.json');
    await here.command('PETSTORE_KEYS_FILE=one.json keys add bob');
    assert.deepEqual(here.names(), ['one.json']);
    await here.prints('keys list --keys-file=one.json', /^NAME .*\nalice .*\nbob .*\n$/);
  });

  testInFolder(
    'C66 treats names that differ only in their Unicode form as the same name',
    async (here) => {
      const [composed, decomposed] = ['André', 'André'].map((name, index) =>
        name.normalize(index === 0 ? 'NFC' : 'NFD'),
      );
      assert.notEqual(composed, decomposed);
      await here.done(['keys', 'add', decomposed ?? '']);
      await here.refuses(['keys', 'add', composed ?? ''], 2, /already has a key named/);
      await here.refuses(['keys', 'add', decomposed ?? ''], 2, /already has a key named/);
      assert.equal(keysIn(here)[0].name, composed);
      await here.done(['keys', 'revoke', decomposed ?? '']);
      assert.deepEqual(keysIn(here), []);

      here.write(file, textOf(entry(composed ?? '', 'x'), entry(decomposed ?? '', 'y')));
      await here.refuses('keys list', 2, /key 1 and key 2 have the same name/);
      here.write(file, textOf(entry(decomposed ?? '', 'y')));
      await here.done(['keys', 'revoke', composed ?? '']);
      assert.deepEqual(keysIn(here), []);
    },
  );

  testInFolder(
    'C66 keys add and keys revoke keep owner, group and mode of the file',
    { [file]: textOf(entry('alice', 'x')) },
    async (here) => {
      const path = here.at(file);
      const isRoot = process.getuid?.() === 0;
      // Others may give a file only to a group that they belong to.
      const gid = isRoot ? 23_456 : (process.getgroups?.().at(-1) ?? statSync(path).gid);
      chownSync(path, isRoot ? 12_345 : statSync(path).uid, gid);
      chmodSync(path, 0o640);
      const facts = () => [statSync(path).uid, statSync(path).gid, statSync(path).mode];
      const before = facts();

      symlinkSync('keys.json', here.at('data/link.json'));
      for (const line of ['add bob', 'revoke alice', 'revoke bob --keys-file data/link.json']) {
        await here.done(`keys ${line}`);
        assert.deepEqual(facts(), before, line);
      }
    },
  );

  testInFolder('C66 accepts a keys file of at most 100,000 keys', async (here) => {
    const many = Array.from({ length: 100_000 }, (_, index) => entry(`key ${index}`, `${index}`));
    here.write(file, textOf(...many));
    await here.refuses(
      'keys add one-more',
      2,
      /data\/keys\.json is full: its limits are 100000 keys/,
    );
    const { stdout } = await here.command('keys list');
    assert.equal(stdout.split('\n').length, 100_002);
    await here.done(['keys', 'revoke', 'key 77777']);
    await here.done('keys add one-more');
    here.write(file, textOf(...many, entry('too many', 'x')));
    await here.refuses('keys list', 2, /it has 100001 keys, more than 100000/);
    here.write(file, ' '.repeat(2 ** 25 + 1));
    await here.refuses('keys list', 2, /data\/keys\.json is longer than 33554432 bytes/);
  });

  testInFolder('keeps all keys that are added concurrently', async (here) => {
    const names = Array.from({ length: 12 }, (_, index) => `key${index}`);
    const made = await Promise.all(names.map((name) => addKey(here, name)));
    assert.equal(new Set(made).size, names.length);
    const { stdout } = await here.done('keys list');
    assert.deepEqual(stdout.match(/^key\d+/gm)?.toSorted(), names.toSorted());
    assert.deepEqual(here.names('data'), ['keys.json']);
  });

  testInFolder('does not follow a link with the name of a temporary file', async (here) => {
    here.write('victim', 'as it was');
    const line =
      'mkdir data; ln -s ../victim "data/keys.json.$$.tmp"; exec "$0" "$1" keys add alice';
    await here.shell(line).ended;
    assert.equal(here.read('victim'), 'as it was');
    assert.ok(lstatSync(here.at(file)).isFile());
  });

  testInFolder(
    'changes the target of a link, keeps the link, and refuses a dangling link',
    async (here) => {
      mkdirSync(here.at('real'));
      symlinkSync('real', here.at('folder'));
      await addKey(here, 'carol', '--keys-file', 'folder/keys.json');
      symlinkSync('../folder/keys.json', here.at('real/other.json'));
      symlinkSync('folder/other.json', here.at('link.json'));
      for (const name of ['alice', 'bob']) await addKey(here, name, '--keys-file', 'link.json');
      await here.done('keys revoke alice --keys-file link.json');
      await here.prints('keys list --keys-file real/keys.json', /^NAME .*\ncarol .*\nbob .*\n$/);
      assert.deepEqual(here.names('real'), ['keys.json', 'other.json']);
      await here.refuses(
        'keys add bob --keys-file link.json',
        2,
        /^link\.json already has a key named bob/,
      );
      symlinkSync('loop.json', here.at('loop.json'));
      symlinkSync('nowhere.json', here.at('dangling.json'));
      for (const link of ['loop.json', 'dangling.json']) {
        const message = new RegExp(`^keys file ${link} cannot be written: .*--keys-file`);
        await here.refuses(`keys add bob --keys-file ${link}`, 2, message);
      }
      for (const link of ['link.json', 'real/other.json', 'loop.json', 'dangling.json'])
        assert.ok(lstatSync(here.at(link)).isSymbolicLink(), link);
    },
  );

  for (const [what, wrong] of [
    ['invalid JSON', '{'],
    ['an array', '[]'],
    ['no "keys"', '{}'],
    ['"keys" that is an object', '{"keys":{}}'],
    ['an unknown member', '{"keys":[],"version":1}'],
    ['a key that is a string', '{"keys":["psk_x"]}'],
    ['a repeated member', textOf(entry('a', 'x')).replace('"name"', '"name":"b","name"')],
    ['a repeated name', textOf(entry('a', 'x'), entry('a', 'y'))],
    ['a name in two forms of Unicode', textOf(entry('e\u0301', 'x'), entry('\u00e9', 'y'))],
    ['no name', { name: undefined }],
    ['the name of the key of --dev', { name: 'dev' }],
    ['the name of a key of PETSTORE_API_KEYS', { name: 'env-1' }],
    ['a short digest', { sha256: 'abc' }],
    ['no creation time', { created: undefined }],
    ['a misspelt expiry', { expire: '2027-01-01T00:00:00Z' }],
    ['an invalid expiry', { expires: 'tomorrow' }],
    ['an expiry in month 13', { expires: '2027-13-01' }],
    ['an expiry on 31 February', { expires: '2027-02-31' }],
    ['an expiry on 29 February of a common year', { expires: '2027-02-29T23:30:00-05:00' }],
    ['an expiry without a zone', { expires: '2027-01-01T00:00:00' }],
  ] as const) {
    const text = typeof wrong === 'string' ? wrong : textOf(entry('a', 'x', wrong));
    testRefusal(
      'keys add new',
      /keys file data\/keys\.json/,
      { [file]: text },
      `a keys file with ${what}`,
    );
  }
  // A server reads the file as the command does.
  testRefusal('', /keys file data\/keys\.json/, { [file]: '{' });
  testRefusals(
    {
      // a missing member
      'keys list':
        /^keys file data\/keys\.json cannot be used: key 1: "sha256" is missing; it must be 64 hexadecimal digits/,
    },
    { [file]: textOf(entry('a', 'x', { sha256: undefined })) },
  );
});

describe('keys of a running server', { concurrency: 4 }, () => {
  testInFolder(
    'C40 accepts each active key of the environment and of the keys file',
    async (here) => {
      const alice = await addKey(here, 'alice');
      const server = await here.start('--storage memory:', { PETSTORE_API_KEYS: ' one ,, two,' });
      for (const key of [alice, 'one', 'two']) assert.equal(await statusOf(server, key), 200, key);
      for (const key of ['alice', 'three', 'one,', keysIn(here)[0].sha256])
        assert.equal(await statusOf(server, key), 401);
    },
  );

  const expired = entry('a', 'one', { expires: '2020-01-01T00:00:00Z' });
  const lasting = entry('b', 'two', {
    // A digest may have capital letters, as other programs print it.
    sha256: hash('sha256', 'two').toUpperCase(),
    expires: '2999-01-01T00:00:00Z',
  });
  testInFolder(
    'accepts a key until it expires',
    { [file]: textOf(expired, lasting) },
    async (here) => {
      const server = await here.start(onlyKeysFile);
      assert.deepEqual([await statusOf(server, 'one'), await statusOf(server, 'two')], [401, 200]);
    },
  );
  testRefusal('PETSTORE_API_KEYS=', /every API key has expired/, { [file]: textOf(expired) });

  testInFolder(
    'follows added and revoked keys within seconds, even if the last key is revoked',
    async (here) => {
      const alice = await addKey(here, 'alice');
      const server = await here.start(onlyKeysFile);
      /** Waits for a status: two seconds by contract, with a reserve for a busy machine. */
      const follows = async (key: string, status: number): Promise<void> => {
        const since = performance.now();
        await until(`${status}`, async () => (await statusOf(server, key)) === status);
        assert.ok(performance.now() - since < 8_000);
      };
      const bob = await addKey(here, 'bob');
      await follows(bob, 200);
      assert.equal((await server.waitForLog('keys read again'))['keys'], 2);
      await here.command('keys revoke bob');
      await follows(bob, 401);
      assert.ok(!server.stdout.includes(bob));

      await here.command('keys revoke alice');
      await follows(alice, 401);
      assert.equal(await server.status('/healthz'), 200);
    },
  );

  testInFolder(
    'keeps the old keys and logs the reason if the keys file is invalid or missing',
    { [file]: textOf(entry('a', 'one')) },
    async (here) => {
      const server = await here.start(onlyKeysFile);
      const accepts = async (good: string, bad: string): Promise<void> => {
        assert.deepEqual([await statusOf(server, good), await statusOf(server, bad)], [200, 401]);
      };
      here.write(file, textOf(entry('a', 'two')));
      server.signal('SIGHUP');
      await server.waitForLog('keys read again');
      await accepts('two', 'one');

      here.write('new', '{"keys":[');
      renameSync(here.at('new'), here.at(file));
      const { level, error } = await server.waitForLog(
        'the keys file cannot be used; the old keys stay in use',
      );
      assert.equal(level, 'warn');
      assert.match(String(error), /data\/keys\.json.*Not valid JSON/);
      await accepts('two', 'one');
      // SIGHUP logs the same reason again.
      server.signal('SIGHUP');
      await until('a second warning', () => warningsOf(server) === 2);
      rmSync(here.at(file));
      await until('a third warning', () => warningsOf(server) === 3);
      await accepts('two', 'one');
      here.write('new', textOf(entry('a', 'one')));
      renameSync(here.at('new'), here.at(file));
      await until('the new key', async () => (await statusOf(server, 'one')) === 200);
      await accepts('one', 'two');
    },
  );

  // /take opens all free descriptors except the one of its own socket, and /free closes them.
  const taking = `import { closeSync, openSync } from 'node:fs';
      const held = [];
      const reply = { status: 200, headers: [], body: '1' };
      export default (host) => {
        const take = () => { try { for (;;) held.push(openSync('/dev/null')); } catch { return reply; } };
        const free = () => { held.splice(0).forEach((descriptor) => closeSync(descriptor)); return reply; };
        host.route({ path: '/take', methods: { GET: { handler: take } } });
        host.route({ path: '/free', methods: { GET: { handler: free } } });
      };`;
  testInFolder(
    'retries each second if it cannot open the changed file, and logs the failure once',
    {
      'plugin.mjs': taking,
      [file]: textOf(entry('a', 'one'), entry('b', 'two')),
    },
    async (here, t) => {
      const server = await here.start(`${onlyKeysFile} --plugin ./plugin.mjs`);
      const client = new SerialClient(server.port);
      atEnd(t, () => client.end());
      const status = async (path: string, key: string): Promise<number | undefined> =>
        (await client.send(requestBytes('GET', path, { authorization: `Bearer ${key}` })))?.status;
      assert.equal(await status('/take', 'one'), 200);
      here.write(file, textOf(entry('b', 'two')));
      const { error } = await server.waitForLog(
        'the keys file cannot be used; the old keys stay in use',
      );
      assert.match(String(error), /too many open files/);
      // Two more tries fail meanwhile and log nothing.
      await wait(2_500);
      assert.equal(warningsOf(server), 1);
      assert.equal(await status('/v1/pets', 'one'), 200);
      assert.equal(await status('/free', 'one'), 200);
      await until('the end of the key', async () => (await status('/v1/pets', 'one')) === 401);
      assert.equal(await status('/v1/pets', 'two'), 200);
      await server.waitForLog('keys read again');
      assert.equal(warningsOf(server), 1);
    },
  );

  testInFolder('follows the default keys file if it is created after the start', async (here) => {
    const server = await here.start('--storage memory:');
    const alice = await addKey(here, 'alice');
    await until('the new key', async () => (await statusOf(server, alice)) === 200);
    assert.equal(await statusOf(server), 200);
  });
});

const statusOf = async (server: StartedServer, key?: string): Promise<number> =>
  await server.status('/v1/pets', key);
const warningsOf = (server: StartedServer): number =>
  server.log.filter(({ level }) => level === 'warn').length;
