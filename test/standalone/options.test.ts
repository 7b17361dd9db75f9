// The command line and the environment: every name, who wins, and what is refused with exit 2
// before anything is touched.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import {
  apiKey,
  assertRefused,
  root,
  StartedProcess,
  serverFile,
  type Ended,
} from '../support/process.js';
import { WorkingFolder, type CommandLine } from '../support/working-folder.js';

const keyed = { PETSTORE_API_KEYS: apiKey };

describe('options', { concurrency: 4 }, () => {
  test('--help names every flag, variable, default and command, and exits 0', async (t) => {
    const { code, stdout, stderr } = await new WorkingFolder(t).run('--help');
    assert.equal(code, 0);
    assert.equal(stderr, '');
    const names =
      `--host --port --storage --keys-file --plugin --cors-origin --max-body-bytes --drain --base-url --staging-base-url --tls-cert --tls-key --log --log-format --dev
      --expires --after --salvage --from --to --help --version HOST PORT PETSTORE_STORAGE PETSTORE_API_KEYS PETSTORE_KEYS_FILE PETSTORE_PLUGINS PETSTORE_CORS_ORIGINS PETSTORE_MAX_BODY_BYTES PETSTORE_DRAIN
      PETSTORE_BASE_URL PETSTORE_STAGING_BASE_URL PETSTORE_TLS_CERT PETSTORE_TLS_KEY PETSTORE_LOG PETSTORE_LOG_FORMAT 127.0.0.1 3000 file:data/pets.jsonl
      data/keys.json 65536 data/dev-key`.split(/\s+/);
    for (const name of [
      ...names,
      'keys add NAME',
      'keys list',
      'keys revoke NAME',
      'import FILE',
      'migrate',
      'copy --from',
      'check FILE',
    ])
      assert.ok(stdout.includes(name), name);
    assert.ok(stdout.split('\n').every((line) => line.length <= 120));
  });

  test('--version prints the version of package.json', async (t) => {
    const { code, stdout } = await new WorkingFolder(t).run('--version');
    assert.equal(code, 0);
    assert.equal(
      stdout,
      `${JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version}\n`,
    );
  });

  test('-h, help and -v are what --help and --version are, and the help names the program as it was called', async (t) => {
    const here = new WorkingFolder(t);
    const { stdout: help } = await here.command('--help');
    assert.match(help, /^Usage: node dist\/server\.js \[options\]/m);
    for (const args of [['-h'], ['help'], ['help', 'keys']]) {
      const { code, stdout } = await here.command(args);
      assert.deepEqual([code, stdout], [0, help], args.join(' '));
    }
    await here.prints('-v', (await here.command('--version')).stdout);
    symlinkSync(serverFile, here.at('petstore'));
    const called = async (args: readonly string[]): Promise<Ended> =>
      new StartedProcess(process.execPath, [here.at('petstore'), ...args], { cwd: here.path })
        .ended;
    assert.equal((await called(['-h'])).stdout, help.replaceAll('node dist/server.js', 'petstore'));
    assertRefused(await called([]), 2, /make one with `petstore keys add NAME`/);
  });

  test('help needs no key, no good environment, and comes with a command too', async (t) => {
    const here = new WorkingFolder(t);
    assert.equal((await here.command('keys --help', { PORT: 'bad' })).code, 0);
    assert.deepEqual(here.names(), []);
  });

  const parts: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    [
      'keys',
      ['keys add NAME [--expires TIME]', 'keys list', 'keys revoke NAME'],
      ['--keys-file', '--expires'],
    ],
    ['import', ['import FILE [--after LINE]'], ['--storage', '--after']],
    ['copy', ['copy --from STORAGE --to STORAGE'], ['--from', '--to']],
    ['migrate', ['migrate --storage postgres://…'], ['--storage']],
    ['check', ['check FILE [--salvage OUT]'], ['--salvage']],
  ];
  for (const [name, forms, flags] of parts) {
    test(`${name} --help prints the usage, the options and examples of ${name} alone, and exits 0`, async (t) => {
      const here = new WorkingFolder(t);
      const program = 'node dist/server.js';
      const { code, stdout, stderr } = await here.command([name, '--help']);
      assert.deepEqual([code, stderr], [0, '']);
      const [heading, usage = '', options = '', examples = ''] = stdout.split('\n\n');
      assert.equal(heading, `Usage, after ${program}:`);
      assert.deepEqual(
        usage.split('\n').map((line) => /^ {2}(.*?) {2}/.exec(line)?.[1]),
        forms,
      );
      const all = (await here.command('--help')).stdout;
      assert.ok(all.includes(`\n${usage}\n`), 'the help of all says the same');
      const linesOf = (part: string): readonly string[] => part.trimEnd().split('\n').slice(1);
      assert.deepEqual(
        linesOf(options).map((line) => /^ {2}(--[a-z-]+) [A-Z]+ /.exec(line)?.[1]),
        flags,
      );
      for (const line of linesOf(options)) assert.ok(all.split('\n').includes(line), line);
      assert.ok(linesOf(examples).length > 0);
      for (const example of linesOf(examples)) {
        assert.ok(example.startsWith(`  ${program} ${name} `), example);
        for (const [flag] of example.matchAll(/--[a-z-]+/g)) assert.ok(flags.includes(flag), flag);
      }
      assert.ok(stdout.split('\n').every((line) => line.length <= 120));
      for (const args of [
        [name, '-h'],
        [name, 'one', 'two', '--help', '--port', '1'],
      ])
        assert.equal((await here.command(args)).stdout, stdout, args.join(' '));
      assert.deepEqual(here.names(), []);
    });
  }

  test('the examples of import, copy, check and keys run as they stand', async (t) => {
    const here = new WorkingFolder(t);
    mkdirSync(here.at('data'));
    const sound = '{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n';
    here.write('data/animals.jsonl', sound);
    const ran: string[] = [];
    for (const name of ['import', 'copy', 'check', 'keys']) {
      const { stdout } = await here.command([name, '--help']);
      for (const [, line = ''] of stdout.matchAll(/^ {2}node dist\/server\.js (.+)$/gm)) {
        if (/postgres:|\/srv\//.test(line)) continue;
        const { code, stderr } = await here.command(line.split(' '));
        assert.equal(code, 0, `${line}: ${stderr}`);
        ran.push(line);
      }
    }
    assert.equal(ran.length, 6, ran.join('\n'));
  });

  const refusals: readonly (readonly [
    string,
    CommandLine,
    Readonly<Record<string, string>>,
    RegExp,
  ])[] = [
    ['an unknown flag, with the nearest one', '--prot 1', keyed, /--prot.*--port/],
    ['a flag that is like none', '--xyzzy', keyed, /--xyzzy.*--help/],
    ['a short flag', '-x', keyed, /-x;.*--help/],
    ['a flag given twice', '--port 1 --port=2', keyed, /--port.*twice/],
    ['a switch given twice', '--dev --dev', {}, /--dev.*twice/],
    ['a missing value', '--port', keyed, /--port needs a value/],
    ['an empty value', '--port=', keyed, /--port needs a value/],
    ['a flag where a value should be', '--host --port 1', keyed, /--host needs a value/],
    ['a value given to a switch', '--dev=yes', {}, /--dev takes no value/],
    ['an unknown command', 'improt x', keyed, /improt.*import/],
    ['help for an unknown command', 'improt --help', keyed, /improt.*import/],
    ['a flag of another command', 'keys list --port 1', {}, /--port.*keys/],
    ['--expires at a start', '--expires 1d', keyed, /--expires/],
    ...[
      '65536',
      '-1',
      '+80',
      '080',
      '1e3',
      '0x50',
      '80 ',
      'http',
      '3000.0',
      '99999999999999999999',
    ].map(
      (port) =>
        [
          `the port ${port}`,
          [`--port=${port}`],
          keyed,
          /^--port must be a whole number from 0 to 65535/,
        ] as const,
    ),
    ['a bad port in the environment', '', { ...keyed, PORT: 'eighty' }, /^PORT must be .*"eighty"/],
    ['a bad host', '--host http://x', keyed, /^--host/],
    ['a bad host in the environment', '', { ...keyed, HOST: 'a b' }, /^HOST/],
    [
      'a host that is not of this machine',
      '--host 203.0.113.1 --storage memory:',
      keyed,
      /203\.0\.113\.1.*--host/,
    ],
    [
      'a host that is no name',
      '--host nowhere.invalid --storage memory:',
      keyed,
      /nowhere\.invalid.*--host/,
    ],
    [
      'an address that lacks its interface',
      '--host fe80::1 --storage memory:',
      keyed,
      /port 0 of fe80::1 cannot be listened on .*--host/,
    ],
    [
      'a database that breaks off',
      '--storage postgres://ann:secret@[',
      keyed,
      /^--storage must be .* or a URL such as postgres:/,
    ],
    [
      'a database without slashes in the environment',
      '',
      { ...keyed, PETSTORE_STORAGE: 'postgresql:x' },
      /^PETSTORE_STORAGE must be/,
    ],
    [
      'an unknown storage',
      '--storage redis://ann:secret@db',
      keyed,
      /^--storage must be file:PATH/,
    ],
    ['a file storage without a path', '--storage file:', keyed, /^--storage must be/],
    ['a body limit of 0', '--max-body-bytes 0', keyed, /^--max-body-bytes.*from 1 to 16777216/],
    [
      'a body limit that is too large',
      '',
      { ...keyed, PETSTORE_MAX_BODY_BYTES: '268435457' },
      /^PETSTORE_MAX_BODY_BYTES/,
    ],
    [
      'a drain that is no number',
      '--drain 5s',
      keyed,
      /^--drain must be a whole number from 0 to 3600/,
    ],
    ['a drain of days', '', { ...keyed, PETSTORE_DRAIN: '3601' }, /^PETSTORE_DRAIN must be/],
    [
      'a base URL that is no URL',
      '--base-url api.example.com',
      keyed,
      /^--base-url must be an absolute URL/,
    ],
    [
      'a base URL of another scheme',
      '',
      { ...keyed, PETSTORE_BASE_URL: 'ftp://x' },
      /^PETSTORE_BASE_URL/,
    ],
    ['a base URL that breaks off', '--base-url https://[', keyed, /^--base-url/],
    ['a value of great length, cut', ['--log', 'x'.repeat(5_000)], keyed, /^--log.{0,120}x…"$/m],
    [
      'a bad staging URL',
      '',
      { ...keyed, PETSTORE_STAGING_BASE_URL: 'x' },
      /^PETSTORE_STAGING_BASE_URL/,
    ],
    ['an unknown log level', '--log debug', keyed, /^--log must be one of silent, info, requests/],
    [
      'an unknown log level in the environment',
      '',
      { ...keyed, PETSTORE_LOG: 'INFO' },
      /^PETSTORE_LOG/,
    ],
    ['an unknown log format', '--log-format xml', keyed, /^--log-format must be one of text, json/],
    [
      'a bad log format in the environment',
      '',
      { ...keyed, PETSTORE_LOG_FORMAT: 'JSON' },
      /^PETSTORE_LOG_FORMAT/,
    ],
    ['--after at a start', '--after 1', keyed, /--after is not for a start/],
    [
      'control characters in a value, on one line',
      ['--log', 'a\nb\u2028\u001b[2J'],
      keyed,
      /^--log/,
    ],
    [
      'control characters in a flag, on one line',
      ['--a\nb\u0085'],
      keyed,
      /unknown flag --a\\u000ab\\u0085/,
    ],
    ['no key at all, saying how to make one', '', {}, /keys add NAME.*PETSTORE_API_KEYS.*--dev/],
    ['keys of commas and spaces alone', '', { PETSTORE_API_KEYS: ' , ,' }, /no API key/],
    [
      'a key that is not ASCII, without repeating it',
      '',
      { PETSTORE_API_KEYS: 'good,schlüssel' },
      /^PETSTORE_API_KEYS: key 2 (?!.*schl)/,
    ],
    [
      'a keys file that is not there',
      '--keys-file nowhere.json',
      keyed,
      /nowhere\.json.*--keys-file/,
    ],
    [
      'a keys file of the environment that is not there',
      '',
      { ...keyed, PETSTORE_KEYS_FILE: 'nowhere.json' },
      /nowhere\.json.*PETSTORE_KEYS_FILE/,
    ],
    ['a bad keys file even under --dev', '--dev --keys-file nowhere.json', {}, /nowhere\.json/],
  ];
  for (const [what, args, env, line] of refusals) {
    test(`refused with exit 2, nothing touched: ${what}`, async (t) => {
      const here = new WorkingFolder(t);
      const port = 'PORT' in env || String(args).includes('--port') ? {} : { PORT: '0' };
      const ended = await here.command(args, { ...port, ...env });
      assertRefused(ended, 2, line);
      assert.equal(ended.stdout, '');
      assert.ok(!ended.stderr.includes('secret'));
      assert.deepEqual(here.names(), []);
    });
  }

  test('a command that is like none is refused with exit 2', async (t) => {
    assertRefused(
      await new WorkingFolder(t).run('x', keyed),
      2,
      /^unknown command x; --help lists all/,
    );
  });

  test('a port in use is refused with exit 2, its number and the mend', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    atEnd(t, () => taken.close());
    await new Promise((resolve) => taken.once('listening', resolve));
    const address = taken.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    const here = new WorkingFolder(t);
    for (const storage of ['memory:', 'file:pets/a.jsonl']) {
      const ended = await here.run(['--port', port, '--storage', storage], keyed);
      assertRefused(ended, 2, new RegExp(`port ${port} .*in use; .*--port\n$`));
    }
    assert.deepEqual(here.names(), [], 'no folder is made for a server that cannot listen');
  });

  test('every variable of the table works, and an empty one counts as unset', async (t) => {
    const here = new WorkingFolder(t);
    const env = {
      HOST: '127.0.0.2',
      PETSTORE_STORAGE: 'memory:',
      PETSTORE_KEYS_FILE: '',
      PETSTORE_PLUGINS: '',
      PETSTORE_MAX_BODY_BYTES: '40',
      PETSTORE_BASE_URL: 'https://api.example.com/v1',
      PETSTORE_STAGING_BASE_URL: 'https://staging.example.com/v1',
      PETSTORE_TLS_CERT: '',
      PETSTORE_LOG: '',
    };
    const server = await here.start('', env);
    assert.match(server.url, /^http:\/\/127\.0\.0\.2:\d+$/);
    assert.equal((await server.get('/v1/pets')).status, 200);
    assert.equal((await server.add('x')).status, 201);
    assert.equal((await server.add('x'.repeat(40))).status, 413);
    const { servers } = JSON.parse(await (await server.get('/openapi.json')).text());
    assert.deepEqual(servers, [
      { url: 'https://api.example.com/v1' },
      { url: 'https://staging.example.com/v1' },
      { url: '/v1' },
    ]);
    assert.deepEqual(here.names(), []);
  });

  test('a flag beats the environment, in both spellings, even a bad one', async (t) => {
    const here = new WorkingFolder(t);
    const env = {
      HOST: 'a b',
      PORT: 'bad',
      PETSTORE_STORAGE: 'bad',
      PETSTORE_MAX_BODY_BYTES: 'bad',
      PETSTORE_BASE_URL: 'bad',
      PETSTORE_LOG: 'bad',
    };
    // biome-ignore format: short ones by the dozen, a line for each would hide the test.
    const flags = ['--host=127.0.0.1', '--port', '0', '--storage=memory:', '--max-body-bytes', '100', '--base-url=http://one/v1', '--staging-base-url', 'http://two/v1', '--log=info'];
    const server = await here.start(flags, env);
    const { servers } = JSON.parse(await (await server.get('/openapi.json')).text());
    assert.deepEqual(servers.length, 3);
    assert.equal((await server.add('x'.repeat(100))).status, 413);
  });

  test('the default storage is file:data/pets.jsonl below the working folder', async (t) => {
    const here = new WorkingFolder(t);
    const server = await here.start();
    assert.equal((await server.said('listening'))['storage'], 'file:data/pets.jsonl');
    assert.equal((await server.add('Rex')).status, 201);
    assert.match(here.read('data/pets.jsonl'), /^{"id":1,"name":"Rex","categoryId":1}\n/);
  });

  test('--host ::1 listens on IPv6', async (t) => {
    const server = await new WorkingFolder(t).start('--host ::1 --storage memory:');
    assert.match(server.url, /^http:\/\/\[::1\]:\d+$/);
    assert.equal((await server.get('/healthz')).status, 200);
  });

  test('F7: a storage that cannot be used is refused with exit 3 and one line', async (t) => {
    const here = new WorkingFolder(t);
    mkdirSync(here.at('pets.jsonl'));
    here.write('file', '');
    await here.refuses('--storage file:pets.jsonl', 3, /pets\.jsonl.*folder/, keyed);
    await here.refuses('--storage file:file/pets.jsonl', 3, /file\/pets\.jsonl/, keyed);
    await here.refuses('--storage file:/proc/pets.jsonl', 3, /\/proc\/pets\.jsonl/, keyed);
  });
});
