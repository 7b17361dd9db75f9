// Tests that settings with a stray character are refused, and that messages quote values safely.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { describe } from 'node:test';
import { apiKey, assertRefused, freePort, root } from '../support/process.js';
import { until } from '../support/waiting.js';
import { testInFolder, testRefusal } from '../support/working-folder.js';

/** A valid value of each variable. */
const values: Readonly<Record<string, string>> = {
  HOST: '127.0.0.1',
  PORT: '0',
  PETSTORE_STORAGE: 'file:a.jsonl',
  PETSTORE_SEED: 'seed.jsonl',
  PETSTORE_CLOCK: '2030-12-05T23:59:50Z',
  PETSTORE_API_KEYS: 'a-secret,another-secret',
  PETSTORE_KEYS_FILE: 'keys.json',
  PETSTORE_PLUGINS: 'faults',
  PETSTORE_CORS_ORIGINS: 'https://a.example',
  PETSTORE_MAX_BODY_BYTES: '100',
  PETSTORE_DRAIN: '1',
  PETSTORE_KEEP_ALIVE: '60',
  PETSTORE_NODE_INTERFACE: 'check',
  PETSTORE_BASE_URL: 'https://api.example/v1',
  PETSTORE_STAGING_BASE_URL: 'https://staging.example/v1',
  PETSTORE_TLS_CERT: 'cert.pem',
  PETSTORE_TLS_KEY: 'key.pem',
  PETSTORE_JOURNAL_SIZE: '1000',
  PETSTORE_LOG: 'info',
  PETSTORE_LOG_FORMAT: 'json',
  PETSTORE_FROM: 'file:a.jsonl',
  PETSTORE_TO: 'file:a.jsonl',
  PETSTORE_KEY: 'secret',
};

/** The words of the command that reads a variable. */
const words: Readonly<Record<string, readonly string[]>> = {
  PETSTORE_STORAGE: [],
  PETSTORE_FROM: ['copy', '--to', 'file:b.jsonl'],
  PETSTORE_TO: ['copy', '--from', 'file:b.jsonl'],
  PETSTORE_KEY: ['verify', 'http://127.0.0.1:9'],
};

/** The settings that name a file, with the text before the path. */
const paths: readonly (readonly [name: string, before: string])[] = [
  ['PETSTORE_STORAGE=', 'file:'],
  ['PETSTORE_SEED=', ''],
  ['PETSTORE_KEYS_FILE=', ''],
  ['PETSTORE_PLUGINS=', ''],
  ['PETSTORE_TLS_CERT=', ''],
  ['--storage=', 'file:'],
  ['--seed=', ''],
  ['--keys-file=', ''],
  ['--plugin=', ''],
  ['--tls-cert=', ''],
];

/** Command lines that name a file at FILE. */
const commands = [
  'import FILE',
  'check FILE',
  'check pets.jsonl --salvage=FILE',
  'copy --from=file:FILE --to=file:b.jsonl',
  'copy --from=file:pets.jsonl --to=file:FILE',
  'keys list --keys-file=FILE',
  'keys add bob --keys-file=FILE',
  'import pets.jsonl --storage=file:FILE',
];

describe('the text of a setting', { concurrency: 4 }, () => {
  testInFolder(
    'C76 refuses a stray character at the ends of each variable and changes no file',
    async (here) => {
      const help = await here.allHelp();
      const variables = [
        ...help.matchAll(/\[((?!COMMAND)[A-Z_]+)\]|^ {2}(PETSTORE_[A-Z_]+) /gm),
      ].map(([, option, own]) => option ?? own ?? '');
      assert.deepEqual([...new Set(variables)].sort(), Object.keys(values).sort());

      for (const [name, value] of Object.entries(values))
        for (const stray of ['\r', '\t', '\u00a0', '\ufeff', '\u0007', '\ufffd', '"', "'"]) {
          const isQuote = /["']/.test(stray);
          const text = isQuote ? `${stray}${value}${stray}` : `${value}${stray}`;
          const line = words[name] ?? ['--storage', 'memory:'];
          const ended = await here.command([`${name}=${text}`, ...line]);
          assertRefused(ended, 2, new RegExp(`^${name}\\b`));
          assert.doesNotMatch(ended.stderr, /secret/);
        }
      assert.deepEqual(here.names(), []);
    },
  );

  for (const [text, message] of [
    ['file:a.jsonl\r', /carriage return at its end: "file:a\.jsonl\\r"; .* LF instead of CR LF/],
    ['file:a.jsonl ', /has a blank at one end: "file:a\.jsonl "/],
    [' file:a.jsonl', /has a blank at one end/],
    ['file: a.jsonl', /has a blank at one end of a name/],
    ['file:data /a.jsonl', /has a blank at one end of a name/],
    ['file:data/ a.jsonl', /has a blank at one end of a name/],
    ['file:a.jsonl;', /has a comma or a semicolon at its end/],
    ['file:a.jsonl,', /has a comma or a semicolon at its end/],
    ['file:my\\ pets/a.jsonl', /has a backslash/],
    ['file:a.jsonl\u200b', /invisible character: "file:a\.jsonl\\u200b"/],
    ['file:"a.jsonl"', /has a quote: "file:\\"a\.jsonl\\""/],
    ["file:'a.jsonl'", /has a quote/],
    ['file:a.jsonl"', /has a quote/],
    ['file:a.jsonl # the pets', /has a comment at its end/],
    ['file://a.jsonl', /must be file: and a path, not a URL: "file:\/\/a\.jsonl"; write file:PATH/],
    ['file:///tmp/a%20b.jsonl', /must be file: and a path, not a URL/],
    ['file:-', /must be a file/],
    ['file:$(pwd)/a.jsonl', /has a variable or a command/],
    [`file:/srv/\${NAME}/a.jsonl`, /has a variable or a command/],
    ['file:data/$USER.jsonl', /has a variable or a command/],
    ['memory: ', /has a blank at one end/],
    ['postgres://ann:secret@db.example/pets\r', /has a carriage return/],
    ['postgres://ann:secret@db.example/"pets"', /has a quote/],
    // With an @ in the password, the rest of the password would be taken for the host.
    ['postgres://ann:p@ss/secret@db.example/pets', /%40 for @/],
    ['postgres://ann:p@ss?secret@db.example/pets', /%40 for @/],
  ] as const) {
    testRefusal([`PETSTORE_STORAGE=${text}`], new RegExp(`^PETSTORE_STORAGE .*${message.source}`));
    testRefusal(['--storage', text], new RegExp(`^--storage .*${message.source}`));
  }

  testInFolder(
    'C76 refuses a path that begins with ~ or a variable in each setting and operand',
    { 'pets.jsonl': '{"id":1,"name":"a","categoryId":1}\n' },
    async (here) => {
      const before = here.names();
      for (const path of ['~/x', '~bob/x', '~', '$HOME/x', `\${HOME}/x`]) {
        const message = path.startsWith('~') ? /begins with ~, .*\$HOME/ : /begins with a variable/;
        for (const [name, prefix] of paths)
          await here.refuses([`${name}${prefix}${path}`], 2, message);
        for (const line of commands)
          await here.refuses(line.replace('FILE', path.replaceAll('$', '$$$$')), 2, message);
      }
      assert.deepEqual(here.names(), before);
    },
  );

  testInFolder(
    'C76 refuses the form of --storage in settings and operands that are a path',
    { 'pets.jsonl': '{"id":1,"name":"a","categoryId":1}\n' },
    async (here) => {
      const before = here.names();
      for (const line of [
        'keys add bob --keys-file file:keys.json',
        'check file:pets.jsonl',
        'import file:pets.jsonl',
        'check pets.jsonl --salvage file:out.jsonl',
        '--seed file:pets.jsonl',
      ])
        await here.refuses(line, 2, /must be a path: "file:.*"; write it without file:/);
      assert.deepEqual(here.names(), before);
    },
  );

  testInFolder('C76 accepts a dollar sign, a tilde and other signs within a path', async (here) => {
    for (const name of ['a$b.jsonl', 'a~b.jsonl', 'a#b.jsonl', 'a (1) {2}.jsonl', '100%.jsonl']) {
      const server = await here.start(['--storage', `file:${name}`]);
      await server.end();
    }
  });

  testInFolder(
    'C76 refuses a path that is not UTF-8 in each setting and operand',
    { 'pets.jsonl': '{"id":1,"name":"a","categoryId":1}\n' },
    async (here) => {
      const before = here.names();
      const message = /has bytes that are not UTF-8: ".*\\ufffd/;
      const env = { PETSTORE_API_KEYS: apiKey };
      for (const [name, prefix] of paths) {
        const word = `"${name}${prefix}$(printf 'a\\377.jsonl')"`;
        const line = name.startsWith('-') ? `"$0" "$1" ${word}` : `env ${word} "$0" "$1"`;
        assertRefused(await here.shell(line, env).ended, 2, message);
      }
      for (const command of commands) {
        const words = command.replace('FILE', "$(printf 'a\\377.jsonl')");
        assertRefused(await here.shell(`"$0" "$1" ${words}`, env).ended, 2, message);
      }
      assert.deepEqual(here.names(), before);
    },
  );

  testInFolder(
    'C76 refuses a working folder that was removed or whose name is not UTF-8',
    async (here) => {
      const env = { PETSTORE_API_KEYS: apiKey, PORT: '0' };
      const strange = 'mkdir "$(printf \'a\\377\')" && cd "$(printf \'a\\377\')"';
      const before = here.shell(`${strange} && exec "$0" "$1" --help >/dev/null`, env);
      assert.equal((await before.ended).code, 0);
      const start = here.shell(`cd "$(printf 'a\\377')" && exec "$0" "$1"`, env);
      assertRefused(await start.ended, 2, /^the name of the working folder has bytes that are not/);
      assert.equal(readdirSync(here.path).length, 1);

      mkdirSync(here.at('gone'));
      const gone = here.shell('cd gone && rmdir ../gone && exec "$0" "$1"', env);
      assertRefused(
        await gone.ended,
        2,
        /^the working folder cannot be used .*; run the command in another folder/,
      );
    },
  );

  testInFolder(
    'C76 accepts blanks, apostrophes and letters of any script within a path',
    async (here) => {
      // The joiners of Persian and Indic scripts and of emoji are invisible.
      const path = "o'brien/my pets/größe #1/動物/क\u094d\u200dष\u200c👩\u200d🚀.jsonl";
      const server = await here.start(['--storage', `file:${path}`]);
      assert.equal((await server.add('Rex')).status, 201);
      await server.stopCleanly();
      assert.match(here.read(path), /"name":"Rex"/);
    },
  );

  testInFolder('C76 accepts quotes within an API key, but not around it', async (here) => {
    const key = `a"b'c\``;
    const server = await here.start(['--storage', 'memory:'], { PETSTORE_API_KEYS: `x, ${key}` });
    assert.equal(await server.status('/v1/pets', key), 200);
    for (const text of ['"secret"', '"x,secret"', "x,'secret'", '"secret","x"'])
      await here.refuses([`PETSTORE_API_KEYS=${text}`], 2, /^PETSTORE_API_KEYS has a quote; /);
  });
});

describe('the value in a message', { concurrency: 4 }, () => {
  const long = 'x'.repeat(100_000);
  for (const line of [
    [long],
    ['help', long],
    [`--${long}`],
    [`--${long}=1`],
    [`--dev=${long}`],
    ...['--host', '--port', '--storage', '--seed', '--clock', '--keys-file', '--plugin'].map(
      (flag) => [flag, long],
    ),
    ...['--cors-origin', '--max-body-bytes', '--drain', '--base-url', '--tls-cert', '--log'].map(
      (flag) => [flag, long],
    ),
    ['--storage', `file:${long}`],
    ['--storage', `postgres://ann:secret@db/${long}?sslmode=x`],
    ['--base-url', `https://${long}/?`],
    ['--cors-origin', `https://${long}`],
    ['--cors-origin', `https://a.example/${long}`],
    ['import', long],
    ['import', 'x', '--after', long],
    ['check', long],
    ['check', `data/${'x/'.repeat(50_000)}y`],
    ['check', 'x', '--salvage', long],
    ['copy', '--from', `file:${long}`, '--to', 'file:x'],
    ['keys', long],
    ['keys', 'add', long],
    ['keys', 'revoke', long],
    ['keys', 'add', 'x', '--expires', long],
    ['verify', long, '--key', 'x'],
    ['verify', `http://127.0.0.1:1/${long}`, '--key', 'x'],
  ])
    testInFolder(`a message cuts a long argument: ${line.join(' ').slice(0, 50)}`, async (here) => {
      const words = ['--clock'].includes(line[0] ?? '') ? ['--storage', 'memory:', ...line] : line;
      const ended = await here.command(words);
      assertRefused(ended, 2, /./);
      assert.ok(ended.stderr.length < 500, `${ended.stderr.length}`);
      assert.deepEqual(here.names(), []);
    });

  testRefusal(
    'keys list --keys-file keys.json',
    /^keys file keys\.json .* unknown member "x{60}…"; /,
    { 'keys.json': `{"keys":[{"${long}":1}]}` },
  );
  testRefusal(['keys', 'add', 'a\ufffd'], /^NAME has bytes that are not UTF-8: "a\\ufffd"/);
  testRefusal(['import', ''], /^FILE is empty: ""; name a file/);
  testRefusal(['keys', 'revoke', 'a\u0007\u200b\u202eb'], /named "a\\u0007\\u200b\\u202eb"/);
  testRefusal(['--base-url', 'https://ann:secret@a.example'], /"https:\/\/…@a\.example"/);
  testRefusal(['--base-url', 'ann:secret@a.example'], /"…@a\.example"/);
  testRefusal(['--cors-origin', 'https://ann:secret@a.example'], /"https:\/\/…@a\.example"/);
  testRefusal(['--plugin', 'https://ann:secret@a.example/p.mjs'], /"https:\/\/…@a\.example/);
  testRefusal('verify http://ann:secret@127.0.0.1:1 --key x', /"http:\/\/…@127\.0\.0\.1:1"/);
  testRefusal(['verify', 'http://127.0.0.1:1', '--key', 'a secret'], /^--key must be an API key/);
  // Only a joined value may begin with two dashes.
  testRefusal(['verify', 'http://127.0.0.1:1', '--key=--a secret'], /^--key must be an API key/);
  testRefusal(['verify', 'http://127.0.0.1:1', '--key', '--a'], /^flag --key needs a value/);
  for (const text of ['secret\nother\n', 'secret \n', 'secret\n\n'])
    testRefusal(
      'verify http://127.0.0.1:1 --key-file key',
      /^the text in key must be an API key of visible ASCII characters$/m,
      { key: text },
      `C40 a --key-file with ${JSON.stringify(text)}`,
    );
});

describe('a terminal', () => {
  testInFolder(
    'a dumb terminal gets no escape sequences',
    { 'in.jsonl': '{"name":"a","categoryId":1}\n' },
    async (here) => {
      const env = { TERM: 'dumb', FORCE_COLOR: '1' };
      const { code, stdout } = await here.onTerminal('import in.jsonl', env).ended;
      assert.equal(code, 0);
      assert.equal(stdout, '1 pet added to file:data/pets.jsonl\r\n');

      const server = await here.start('--storage memory:');
      const line = `verify ${server.url} --key ${apiKey} --level specification`;
      assert.ok(!(await here.onTerminal(line, env).ended).stdout.includes('\u001b'));
    },
  );
});

describe("Node's permission model", () => {
  const flag = process.allowedNodeEnvironmentFlags.has('--permission')
    ? '--permission'
    : '--experimental-permission';
  const hasNet = process.allowedNodeEnvironmentFlags.has('--allow-net');
  const reading = `${flag} --allow-fs-read=* --no-warnings`;
  const allowed = hasNet ? `${reading} --allow-net` : reading;

  for (const [line, message, code] of [
    [
      '--storage file:a.jsonl',
      /denies access to \/.*\/a\.jsonl: start Node with --allow-fs-write/,
      3,
    ],
    ['--dev --storage memory:', /start Node with --allow-fs-write/, 2],
    ['keys add bob', /start Node with --allow-fs-write/, 2],
    ['import in.jsonl', /start Node with --allow-fs-write/, 3],
  ] as const)
    testInFolder(
      `a message names Node's permission model if it denies access: ${line}`,
      { 'in.jsonl': '{"name":"a","categoryId":1}\n' },
      async (here) => {
        const env = { PETSTORE_API_KEYS: apiKey, PORT: '0' };
        const ended = await here.shell(`exec "$0" ${allowed} "$1" ${line}`, env).ended;
        assertRefused(ended, code, message);
        assert.doesNotMatch(ended.stderr, /disk|folder writable|restricted/);
      },
    );

  testInFolder(
    'a message names Node’s permission model if it denies reading the storage',
    { 'a.jsonl': '', 'keys.json': '{"keys":[]}' },
    async (here) => {
      const readable = [root, here.at('keys.json')].map((path) => `"--allow-fs-read=${path}"`);
      const flags = [...allowed.split(' ').filter((each) => !each.includes('read')), ...readable];
      const line = `exec "$0" ${flags.join(' ')} "$1" --storage file:a.jsonl --keys-file keys.json`;
      const ended = await here.shell(line, { PETSTORE_API_KEYS: apiKey, PORT: '0' }).ended;
      assertRefused(ended, 3, /denies access to \/.*a\.jsonl: start Node with --allow-fs-read/);
    },
  );

  testInFolder('a message names Node’s permission model if it denies ports', async (here) => {
    const env = { PETSTORE_API_KEYS: apiKey, PORT: '0' };
    for (const line of hasNet ? ['--storage memory:', '--dev'] : []) {
      const ended = await here.shell(`exec "$0" ${reading} "$1" ${line}`, env).ended;
      assertRefused(ended, 2, /denies every port: start Node with --allow-net$/m);
    }
  });

  testInFolder('a server with --storage memory: needs no permission to write', async (here) => {
    const port = await freePort();
    const line = `exec "$0" ${allowed} "$1" --storage memory: --port ${port}`;
    here.shell(line, { PETSTORE_API_KEYS: apiKey });
    const isListening = () =>
      fetch(`http://127.0.0.1:${port}/healthz`).then(
        ({ ok }) => ok,
        () => false,
      );
    await until('the server', isListening);
  });
});
