// Tests the command line and the environment: the help, precedence, and refusals with exit 2.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe } from 'node:test';
import { assertRefused, root, serverFile, takenPort, type Ended } from '../support/process.js';
import {
  commandNames,
  testInFolder,
  testRefusal,
  testRefusals,
} from '../support/working-folder.js';

/** Returns the first group of each match. */
const allIn = (text: string, pattern: RegExp): readonly string[] =>
  Array.from(text.matchAll(pattern), ([, found = '']) => found);

describe('options', { concurrency: 4 }, () => {
  testInFolder(
    'the help of all commands has each flag, variable, default and command',
    async (here) => {
      const stdout = await here.allHelp();
      const names = `--host, --port, --storage, --keys-file, --plugin, --cors-origin, --max-body-bytes, --drain,
      --base-url, --staging-base-url, --tls-cert, --tls-key, --log, --log-format, --dev, --expires, --after, --salvage,
      --from, --to, --help, --version, HOST, PORT, PETSTORE_STORAGE, PETSTORE_API_KEYS, PETSTORE_KEYS_FILE,
      PETSTORE_PLUGINS, PETSTORE_CORS_ORIGINS, PETSTORE_MAX_BODY_BYTES, PETSTORE_DRAIN, PETSTORE_BASE_URL,
      PETSTORE_STAGING_BASE_URL, PETSTORE_TLS_CERT, PETSTORE_TLS_KEY, PETSTORE_LOG, PETSTORE_LOG_FORMAT, 127.0.0.1,
      3000, file:data/pets.jsonl, data/keys.json, 65536, data/dev-key, keys add NAME, keys list, keys revoke NAME,
      serve, --json, import FILE, migrate, copy --from, check FILE`;
      for (const name of names.split(/,\s+/)) assert.ok(stdout.includes(name), name);
    },
  );

  testInFolder('the lines of the help have at most 80 columns', async (here) => {
    for (const line of ['--help', ...commandNames.map((name) => `${name} --help`)])
      assert.deepEqual(
        (await here.command(line)).stdout.split('\n').filter((text) => text.length > 80),
        [],
        line,
      );
  });

  testInFolder(
    'help COMMAND prints the same as COMMAND --help, and exits with 2 for an unknown command',
    async (here) => {
      for (const name of commandNames) {
        const { code, stdout } = await here.command(`help ${name}`);
        assert.equal(code, 0, name);
        await here.prints(`${name} --help`, stdout);
        assert.ok(stdout.includes(`\n  node dist/server.js ${name} `), stdout);
      }
      for (const line of ['help nope', 'help nope --help', 'nope --help'])
        await here.refuses(line, 2, /^unknown command nope; --help lists all$/m);
      await here.refuses('help improt', 2, /improt; did you mean import\?$/m);
    },
  );

  testInFolder(
    '-h and help print --help, -v prints the version, and the help names the program as called',
    async (here) => {
      const { stdout: help } = await here.command('--help');
      assert.match(help, /^Usage:\n {2}node dist\/server\.js \[COMMAND\] \[options\]$/m);
      for (const line of ['-h', 'help', 'help help']) await here.prints(line, help);
      const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
      for (const line of ['-v', '--version'])
        await here.prints(line, `${version}\nHTTP on Node ${process.versions.node}: fast\n`);
      const documented = `${version}\nHTTP on Node ${process.versions.node}: documented\n`;
      await here.prints('-v --node-interface documented', documented);
      symlinkSync(serverFile, here.at('petstore'));
      const called = (line: string): Promise<Ended> => here.shell(`"$0" petstore ${line}`).ended;
      assert.equal((await called('-h')).stdout, help.replaceAll('node dist/server.js', 'petstore'));
      assertRefused(await called(''), 2, /make one with `petstore keys add NAME`/);
    },
  );

  for (const [name, forms, flags] of [
    [
      'keys',
      ['keys add NAME [--expires TIME]', 'keys list [--json]', 'keys revoke NAME'],
      ['--keys-file', '--json', '--expires'],
    ],
    ['import', ['import FILE [--after LINE]'], ['--storage', '--after']],
    ['copy', ['copy --from STORAGE --to STORAGE'], ['--from', '--to']],
    ['migrate', ['migrate [--print]'], ['--storage', '--print']],
    ['check', ['check FILE [--salvage OUT]'], ['--salvage']],
  ] as const) {
    testInFolder(
      `${name} --help prints only the usage, options and examples of ${name}, for any environment`,
      async (here) => {
        const program = 'node dist/server.js';
        const { code, stdout, stderr } = await here.command(`${name} --help`);
        assert.deepEqual([code, stderr], [0, '']);
        const [usage = '', options = '', examples = ''] = stdout.split('\n\n');
        assert.match(usage, /^Usage:\n/);
        const main = (await here.command('--help')).stdout;
        const pattern = new RegExp(`^  ${program} (\\S.*?)(?: {2}|$)`, 'gm');
        assert.deepEqual(allIn(usage, pattern), forms);
        for (const form of forms)
          assert.match(main, new RegExp(`^  ${form.replace(/[[]/g, '\\$&')}`, 'm'));
        const linesOf = (part: string): readonly string[] => part.trimEnd().split('\n').slice(1);
        assert.deepEqual(allIn(options, /^ {2}(--[a-z-]+)(?: |$)/gm), [
          ...flags,
          '--help',
          '--version',
        ]);
        assert.ok(linesOf(examples).length > 0);
        for (const example of linesOf(examples)) {
          const [, call = ''] = /^ {2}(?:PETSTORE_\w+=\S+ )?(\S.*)$/.exec(example) ?? [];
          assert.ok(`${call} `.startsWith(`${program} ${name} `), example);
          for (const [flag] of example.matchAll(/--[a-z-]+/g))
            assert.ok(
              flags.some((known) => known === flag),
              flag,
            );
        }
        for (const words of ['-h', 'one two --help --port 1'])
          await here.prints(`PORT=bad ${name} ${words}`, stdout);
        assert.deepEqual(here.names(), []);
      },
    );
  }

  const sound = '{"name":"a","categoryId":1}\n{"name":"b","categoryId":2}\n';
  testInFolder(
    'the examples of import, copy, check and keys run unchanged',
    { 'data/animals.jsonl': sound },
    async (here) => {
      const ran: string[] = [];
      for (const name of ['import', 'copy', 'check', 'keys']) {
        const { stdout } = await here.command(`${name} --help`);
        const [, examples = ''] = stdout.split('Examples:');
        for (const [, line = ''] of examples.matchAll(/^ {2}node dist\/server\.js (.+)$/gm)) {
          if (/postgres:|\/srv\//.test(line)) continue;
          const { code, stderr } = await here.command(line);
          assert.equal(code, 0, `${line}: ${stderr}`);
          ran.push(line);
        }
      }
      assert.equal(ran.length, 7, ran.join('\n'));
    },
  );

  testRefusals({
    // a command without a similar name
    x: /^unknown command x; --help lists all/,
    // an unknown flag with a similar name
    '--prot 1': /--prot.*--port/,
    // a flag without a similar name
    '--xyzzy': /--xyzzy.*--help/,
    // a short flag
    '-x': /-x;.*--help/,
    // a flag given twice
    '--port 1 --port=2': /--port.*twice/,
    // a switch given twice
    '--dev --dev': /--dev.*twice/,
    // a missing value
    '--port': /--port needs a value/,
    '--seed': /^flag --seed needs a value; write --seed FILE$/m,
    'verify --seed': /^flag --seed needs a value; write --seed NUMBER$/m,
    // an empty value
    '--port=': /--port needs a value/,
    // a flag where a value should be
    '--host --port 1': /--host needs a value/,
    // a value given to a switch
    '--dev=yes': /--dev takes no value/,
    'improt x': /improt; did you mean import\?/,
    // several similar names
    '--prot': /--prot; did you mean --port\?/,
    '--tls': /--tls; did you mean --tls-cert or --tls-key\?/,
    cpoy: /cpoy; did you mean copy\?/,
    'improt --help': /improt.*import/,
    // --expires without a command
    '--expires 1d': /--expires/,
    'PORT=eighty': /^PORT must be .*"eighty"/,
    // a bad host
    '--host http://x': /^--host/,
    // an address of another machine
    '--host 203.0.113.1 --storage memory:': /203\.0\.113\.1.*--host/,
    // an unknown host
    '--host nowhere.invalid --storage memory:': /nowhere\.invalid.*--host/,
    // a link-local address without its interface
    '--host fe80::1 --storage memory:': /^cannot listen on fe80::1 port 0: .*--host/,
    // a link-local address with an interface that does not exist
    '--host fe80::1%none --storage memory:': /^cannot listen on fe80::1%none port 0: .*--host/,
    // an incomplete database URL
    '--storage postgres://ann:secret@[': /^--storage is not a valid URL .* form postgres:/,
    // an unknown storage
    '--storage redis://ann:secret@db': /^--storage must be file:PATH/,
    // a file storage without a path
    '--storage file:': /^--storage must be/,
    // a body limit of 0
    '--max-body-bytes 0': /^--max-body-bytes.*from 1 to 16777216/,
    'PETSTORE_MAX_BODY_BYTES=268435457': /^PETSTORE_MAX_BODY_BYTES/,
    // a drain with a unit
    '--drain 5s': /^--drain must be a whole number from 0 to 3600/,
    'PETSTORE_DRAIN=3601': /^PETSTORE_DRAIN must be/,
    // a base URL without a scheme
    '--base-url api.example.com': /^--base-url must be an absolute URL/,
    // an incomplete base URL
    '--base-url https://[': /^--base-url/,
    'PETSTORE_STAGING_BASE_URL=x': /^PETSTORE_STAGING_BASE_URL/,
    // an unknown log level
    '--log debug': /^--log must be one of silent, info, requests/,
    'PETSTORE_LOG=INFO': /^PETSTORE_LOG/,
    // an unknown log format
    '--log-format xml': /^--log-format must be one of text, json/,
    'PETSTORE_LOG_FORMAT=JSON': /^PETSTORE_LOG_FORMAT/,
    // --after without a command
    '--after 1': /--after is not for a start, only for import; leave it out/,
    // an operand of a start
    'serve extra': /^`serve` takes no operand; leave extra out/,
    // a key that is not ASCII; the message does not repeat it
    'PETSTORE_API_KEYS=good,schlüssel': /^PETSTORE_API_KEYS: key 2 (?!.*schl)/,
    // a missing keys file
    '--keys-file nowhere.json': /nowhere\.json.*--keys-file/,
    'PETSTORE_KEYS_FILE=nowhere.json': /nowhere\.json.*PETSTORE_KEYS_FILE/,
    // no key
    'PETSTORE_API_KEYS=': /keys add NAME` and start again, set PETSTORE_API_KEYS, .*--dev/,
    // a flag of another command
    'PETSTORE_API_KEYS= keys list --port 1': /--port.*keys/,
    // a database without slashes
    'PETSTORE_STORAGE=postgresql:x': /^PETSTORE_STORAGE must be/,
    // a base URL of another scheme
    'PETSTORE_BASE_URL=ftp://x': /^PETSTORE_BASE_URL/,
    // a bad keys file even under --dev
    '--dev --keys-file nowhere.json': /nowhere\.json/,
  });
  testRefusal([''], /^unknown command ""; --help lists all/);
  testRefusal(['HOST=a b'], /^HOST/);
  // The message names the source of the value.
  testRefusal(
    'HOST=203.0.113.1 --storage memory:',
    /^cannot listen on 203\.0\.113\.1 port \d+: this machine has no such address; choose another with HOST$/m,
  );
  testRefusal(
    'HOST=nowhere.invalid --port 0 --storage memory:',
    /there is no such host; choose another with HOST$/m,
  );
  testRefusal(['PETSTORE_API_KEYS= , ,'], /no API key/);
  // A long value is cut.
  testRefusal(['--log', 'x'.repeat(5_000)], /^--log.{0,120}x…"$/m);
  // Control characters are escaped in a value
  testRefusal(['--log', 'a\nb\u2028\u001b[2J'], /^--log/);
  // and in a flag.
  testRefusal(['--a\nb\u0085'], /unknown flag "--a\\nb\\u0085"/);
  for (const port of [
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
  ])
    testRefusal([`--port=${port}`], /^--port must be a whole number from 0 to 65535/);

  testInFolder('verify ignores PETSTORE_SEED, which names a file of a server', async (here) => {
    const line = 'PETSTORE_SEED=~/in.jsonl verify http://127.0.0.1:9 --key a';
    await here.refuses(line, 3, /^no server responds at /);
    await here.refuses(`${line} --seed x`, 2, /^--seed must be a whole number .*, not "x"$/m);
  });

  testInFolder('exits with 2 for a port in use, with its number and a hint', async (here, t) => {
    const port = await takenPort(t);
    const message = new RegExp(`port ${port}: the port is in use; choose another with --port\n$`);
    for (const storage of ['memory:', 'file:pets/a.jsonl'])
      await here.refuses(`--port ${port} --storage ${storage}`, 2, message);
    assert.deepEqual(here.names(), [], 'a server that cannot listen creates no folder');
  });

  testInFolder('reports a missing key before a port in use', async (here, t) => {
    const port = await takenPort(t);
    for (const storage of ['', ' --storage file:pets.jsonl'])
      await here.refuses(`PETSTORE_API_KEYS= --port ${port}${storage}`, 2, /^there is no API key/);
    assert.deepEqual(here.names(), []);
  });

  testInFolder('reads each variable, and treats an empty variable as unset', async (here) => {
    const server = await here.start(
      'HOST=127.0.0.2 PETSTORE_STORAGE=memory: PETSTORE_KEYS_FILE= PETSTORE_PLUGINS= PETSTORE_MAX_BODY_BYTES=40 ' +
        'PETSTORE_BASE_URL=https://api.example.com/v1 PETSTORE_STAGING_BASE_URL=https://staging.example.com/v1 ' +
        'PETSTORE_TLS_CERT= PETSTORE_LOG= PETSTORE_KEEP_ALIVE=100',
    );
    assert.match(server.url, /^http:\/\/127\.0\.0\.2:\d+$/);
    const list = await server.get('/v1/pets');
    assert.deepEqual([list.status, list.headers.get('Keep-Alive')], [200, 'timeout=100']);
    assert.equal((await server.add('x')).status, 201);
    assert.equal((await server.add('x'.repeat(40))).status, 413);
    const { servers } = JSON.parse(await server.text('/openapi.json'));
    assert.deepEqual(servers, [
      { url: 'https://api.example.com/v1' },
      { url: 'https://staging.example.com/v1' },
      { url: '/v1' },
    ]);
    assert.deepEqual(here.names(), []);
  });

  testInFolder('a flag overrides the environment, and --host ::1 listens on IPv6', async (here) => {
    const server = await here.start(
      'HOST=a/b PORT=bad PETSTORE_STORAGE=bad PETSTORE_MAX_BODY_BYTES=bad PETSTORE_BASE_URL=bad PETSTORE_LOG=bad ' +
        '--host=::1 --port 0 --storage=memory: --max-body-bytes 100 --base-url=http://one/v1 ' +
        '--staging-base-url http://two/v1 --log=info',
    );
    assert.match(server.url, /^http:\/\/\[::1\]:\d+$/);
    const { servers } = JSON.parse(await server.text('/openapi.json'));
    assert.equal(servers.length, 3);
    assert.equal((await server.add('x'.repeat(100))).status, 413);
  });

  testInFolder(
    'F7 exits with 3 and one line for a storage that cannot be used',
    { file: '' },
    async (here) => {
      mkdirSync(here.at('pets.jsonl'));
      await here.refuses('--storage file:pets.jsonl', 3, /pets\.jsonl.*folder/);
      await here.refuses('--storage file:file/pets.jsonl', 3, /file\/pets\.jsonl/);
      await here.refuses('--storage file:/proc/pets.jsonl', 3, /\/proc\/pets\.jsonl/);
    },
  );
});
