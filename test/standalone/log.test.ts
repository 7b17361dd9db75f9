// Tests the log: its formats, its levels, and that it never contains a key.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { apiKey, freePort, type StartedServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { assertPrinted, testInFolder, WorkingFolder } from '../support/working-folder.js';

describe('the log', { concurrency: 4 }, () => {
  testInFolder(
    'the log begins with `listening` and its fields, and has no requests at level info',
    async (here) => {
      const server = await here.start('--storage memory:');
      assert.match(
        server.lines[0] ?? '',
        /^\{"level":"info","msg":"listening","url":"http:\/\/127\.0\.0\.1:\d+","storage":"memory:","pets":0,"readyMs":\d+,"pid":(\d+),"time":"[0-9T:.-]+Z"\}$/,
      );
      assert.equal(server.log[0]?.['pid'], server.pid);
      await server.add('Rex');
      assert.equal((await server.end()).stderr, '');
      assert.deepEqual(messagesOf(server), ['listening', 'stopping']);
    },
  );

  testInFolder(
    'logs each request with method, path, route, status, ms, key name and address',
    async (here) => {
      const server = await here.start('--storage memory: --log requests');
      await server.add('Rex');
      await server.get('/v1/pets/1?secret=1');
      await server.get('/v1/pets', 'wrong-key');
      await server.get('/nowhere/else');
      await server.end();
      const requests = linesOf(server).filter(({ msg }) => msg === 'request');
      assert.deepEqual(
        requests.map(
          ({ method, path, route, status, key, address }) =>
            `${method} ${path} ${route} ${status} ${key} ${address}`,
        ),
        [
          'POST /v1/pets /v1/pets 201 env-1 127.0.0.1',
          'GET /v1/pets/1 /v1/pets/{petId} 200 env-1 127.0.0.1',
          'GET /v1/pets /v1/pets 401 undefined 127.0.0.1',
          'GET /… undefined 404 undefined 127.0.0.1',
        ],
      );
      for (const { ms } of requests) assert.match(String(ms), /^\d+(\.\d{1,3})?$/);
    },
  );

  testInFolder(
    'C40 never logs a key or a query, even if the key is part of a path',
    async (here) => {
      for (const format of ['json', 'text']) {
        const server = here.begin(
          `PETSTORE_API_KEYS=${apiKey},of%41ll,kept/in/parts --storage memory: --log requests --log-format ${format}`,
        );
        const url = await addressOf(server);
        const encoded = `%${apiKey.charCodeAt(0).toString(16)}${apiKey.slice(1)}`;
        for (const [path, key = apiKey] of [
          [`/v1/pets?key=${apiKey}`],
          [`/${apiKey}`, `${apiKey}-almost`],
          [`/v1/pets/${apiKey}`],
          [`/encoded/${encoded}`],
          ['/100%/of'],
          ['/of%41ll'],
          ['/split/kept/in/parts/end'],
          ['/mixed/kept%2Fin/%70arts'],
          ['/v1/kept/in/parts'],
          [`/v1/pets/1/${apiKey}`],
          ['/v1/pets/%31'],
          ['/v1/pets/1234567890'],
          ['/v1/pets/007'],
          ['/v1/pets/12'],
          [`/v1/pets${'/x'.repeat(1_000)}/${apiKey}`],
          [`/v1/${encodeURIComponent(apiKey).repeat(100)}`],
        ] as const)
          await fetch(url + path, { headers: { Authorization: `Bearer ${key}` } });
        const { stdout } = await server.end();
        assert.ok(
          ![apiKey, encoded, 'of%41ll', '?', 'kept'].some((text) => stdout.includes(text)),
          stdout,
        );
        const paths = /(?<="path":"|GET )[^" ]+/g;
        assert.deepEqual(stdout.match(paths), [
          '/v1/pets',
          '/…',
          '/v1/pets/{petId}',
          '/…',
          '/…',
          '/…',
          '/…',
          '/…',
          '/v1/…',
          '/v1/pets/…',
          '/v1/pets/{petId}',
          '/v1/pets/{petId}',
          '/v1/pets/{petId}',
          '/v1/pets/12',
          '/v1/pets/…',
          '/v1/…',
        ]);
      }
    },
  );

  testInFolder('C40 never logs a key that is a number and could be an id', async (here) => {
    const env = { PETSTORE_API_KEYS: `${apiKey},4711` };
    const server = await here.start('--storage memory: --log requests', env);
    await server.get('/v1/pets/4711');
    const { stdout } = await server.end();
    assert.ok(stdout.includes('"path":"/v1/pets/{petId}"'), stdout);
    assert.ok(!stdout.includes('4711'), stdout);
  });

  testInFolder('writes text lines that begin with the time of day', async (here) => {
    const plugin = `export default (host) => {
      host.log('warn', 'two\\nlines', { word: 'one', words: 'one two', quoted: '"', id: 1n, none: undefined, list: [1] });
      host.log('info', 'forged\\u202e', { cyclic: (() => { const it = {}; it.self = it; return it; })() });
    }`;
    here.write('plugin.mjs', plugin);
    const server = here.begin(
      'PETSTORE_LOG_FORMAT=text --storage memory: --log requests --plugin ./plugin.mjs',
    );
    const url = await addressOf(server);
    const headers = { Authorization: `Bearer ${apiKey}` };
    for (const path of ['/v1/pets?limit=1', '/v1/pets/1', '/nowhere'])
      await (await fetch(url + path, { headers })).text();
    await server.end();
    const { lines } = server;
    for (const line of lines) assert.match(line, /^\d\d:\d\d:\d\d /);
    assert.deepEqual(
      lines.map((line) =>
        line
          .slice(9)
          .replace(/\d+\.\d ms/, '0.4 ms')
          .replace(/(readyMs|pid)=\d+/g, '$1=N'),
      ),
      [
        'warn: two\\u000alines word=one words="one two" quoted="\\"" id=1 list=[1]',
        'forged\\u202e unwritten="the fields could not be logged: Converting circular structure to JSON"',
        `listening url=${url} storage=memory: pets=0 readyMs=N pid=N`,
        'GET /v1/pets 200 0.4 ms env-1 127.0.0.1',
        'GET /v1/pets/1 404 0.4 ms env-1 127.0.0.1 /v1/pets/{petId}',
        'GET /… 404 0.4 ms - 127.0.0.1',
        'stopping signal=SIGTERM',
      ],
    );
  });

  for (const [what, format, pattern] of [
    [
      'writes text on a terminal',
      '',
      /^\d\d:\d\d:\d\d listening url=http:\S+ storage=memory: pets=0 readyMs=\d+ pid=(\d+)\r$/m,
    ],
    [
      'obeys PETSTORE_LOG_FORMAT on a terminal',
      'json',
      /^\{"level":"info","msg":"listening",.*"pid":(\d+),/m,
    ],
  ] as const) {
    test(what, { skip: !existsSync('/usr/bin/script') }, async (t) => {
      const env = { PETSTORE_API_KEYS: apiKey, PETSTORE_LOG_FORMAT: format };
      const terminal = new WorkingFolder(t).onTerminal('--storage memory: --port 0', env);
      const pid = await until('the first line', () => pattern.exec(terminal.stdout)?.[1]);
      process.kill(Number(pid), 'SIGTERM');
      assert.equal((await terminal.ended).code, 0);
    });
  }

  testInFolder('prints nothing at level silent', async (here) => {
    const port = await freePort();
    const server = here.begin(`PORT=${port} PETSTORE_LOG=silent --storage memory:`);
    await until('the server', () => isHealthy(port));
    assertPrinted(await server.end(), '');
  });

  testInFolder(
    'prints an uncaught error to standard error at level silent',
    {
      'plugin.mjs':
        "export default () => void setImmediate(() => { throw new Error('from a plugin'); });",
    },
    async (here) => {
      const server = here.begin(
        `PETSTORE_API_KEYS=${apiKey} --storage memory: --log silent --plugin ./plugin.mjs`,
      );
      const { code, stdout, stderr } = await server.ended;
      assert.deepEqual([code, stdout], [70, '']);
      assert.match(stderr, /^Error: from a plugin\n/);
    },
  );

  const forged = `x\n{"level":"info","msg":"forged"}\r\u2028\u2029\u0085\u001b[2J\u202e\u061c\u2066\u2069`;
  testInFolder(
    'escapes characters that could forge a line, and logs a line without unwritable fields',
    {
      'plugin.mjs': `export default (host) => void setImmediate(() => {
        const cyclic = { name: 'a' };
        cyclic.self = cyclic;
        const text = ${JSON.stringify(forged)};
        host.log('info', text, { msg: 'other', time: 1, id: 1n, text });
        host.log('info', 'odd', { before: 1n, nested: { deep: [3n] }, after: undefined, last: true });
        host.log('info', 'cyclic', { cyclic });
        host.log('info', 'failing', { failing: { toJSON() { throw new Error('no JSON of this'); } } });
        host.log('info', 'unreadable', { get secret() { throw new Error('not for you'); } });
        host.log('q"', undefined, { odd: true });
        host.log('info', 'no keys', new Proxy({}, { ownKeys() { throw new Error('no keys here'); } }));
      });`,
    },
    async (here) => {
      const server = await here.start('--storage memory: --plugin ./plugin.mjs');
      await server.waitForLog('no keys');
      assert.equal(await server.status('/healthz'), 200);
      const { stdout } = await server.stopCleanly();
      assert.doesNotMatch(
        stdout,
        /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202e\u061c\u2066-\u2069]/,
      );
      assert.ok(!messagesOf(server).includes('forged'));

      const unwritten = (reason: string) => ({
        unwritten: `the fields could not be logged: ${reason}`,
      });
      for (const [msg, fields] of [
        [forged, { id: '1', text: forged }],
        ['odd', { before: '1', nested: { deep: ['3'] }, last: true }],
        ['cyclic', unwritten('Converting circular structure to JSON')],
        ['failing', unwritten('no JSON of this')],
        ['unreadable', unwritten('not for you')],
        ['no keys', unwritten('no keys here')],
      ] as const) {
        const { time, ...line } = linesOf(server).find((each) => each['msg'] === msg) ?? {};
        assert.match(String(time), /^\d{4}-.*Z$/);
        assert.deepEqual(line, { level: 'info', msg, ...fields });
      }
      assert.equal(linesOf(server).find((each) => each['odd'])?.['level'], 'q"');
    },
  );

  testInFolder(
    'logs an uncaught error that cannot be inspected, and exits with 70',
    {
      'plugin.mjs': `const error = new Error('hidden');
      error[Symbol.for('nodejs.util.inspect.custom')] = () => { throw new Error('no inspection'); };
      Object.defineProperty(error, 'message', { get() { throw new Error('no message'); } });
      export default (host) => {
        const handler = () => (setImmediate(() => { throw error; }), { status: 200, headers: [], body: '1' });
        host.route({ path: '/fault', methods: { GET: { handler } } });
      };`,
    },
    async (here) => {
      const server = await here.start('--storage memory: --plugin ./plugin.mjs');
      await server.get('/fault').catch(() => undefined);
      assert.equal((await server.ended).code, 70);
      assert.equal(
        (await server.waitForLog('internal error'))['error'],
        'an error that cannot be read',
      );
    },
  );

  test('the server keeps running if the log cannot be written', {
    skip: !existsSync('/dev/full'),
  }, async (t) => {
    const port = await freePort();
    const line = `exec "$0" "$1" --storage memory: --log requests --port ${port} >/dev/full`;
    const server = new WorkingFolder(t).shell(line, { PETSTORE_API_KEYS: apiKey });
    await until('the server', () => isHealthy(port));
    assert.equal(await isHealthy(port), true);
    await server.stopCleanly();
  });

  testInFolder(
    'buffers 4 MiB while the log is not read, then logs how many lines were dropped',
    async (here) => {
      const plugin = `export default (host) => {
      let number = 0;
      const flood = () => {
        for (let end = number + 1_000; number < end; number++) host.log('info', 'flood', { number, text: 'x'.repeat(16_384) });
        return { status: 200, headers: [], body: String(process.stdout.writableLength) };
      };
      host.route({ path: '/flood', methods: { GET: { handler: flood } } });
    }`;
      here.write('plugin.mjs', plugin);
      const server = await here.start('--storage memory: --plugin ./plugin.mjs');
      const { url } = server;
      server.child.stdout?.pause();
      for (let count = 0; count < 4; count++) {
        const bytes = Number(await (await fetch(`${url}/flood`)).text());
        assert.ok(bytes > 2 ** 21 && bytes < 2 ** 22 + 2 ** 15, `${bytes} bytes`);
      }
      server.child.stdout?.resume();
      const { level, lines: dropped } = await server.waitForLog(
        'log lines were dropped because they were not read',
      );
      const numbers = (): unknown[] =>
        server.log.filter(({ msg }) => msg === 'flood').map(({ number }) => number);
      assert.equal(level, 'warn');
      assert.equal(numbers().length + Number(dropped), 4_000);
      // The first lines are kept, and new lines are written again.
      assert.deepEqual(
        numbers(),
        Array.from({ length: 4_000 - Number(dropped) }, (_, index) => index),
      );
      server.signal('SIGHUP');
      await server.waitForLog('keys read again');
      await server.stopCleanly();
    },
  );

  testInFolder('the server keeps running if the reader of its output is gone', async (here) => {
    const server = await here.start('--storage memory: --log requests');
    server.child.stdout?.destroy();
    server.child.stderr?.destroy();
    for (let count = 0; count < 5; count++) assert.equal(await server.status('/v1/pets'), 200);
    await server.stopCleanly();
  });

  testInFolder(
    'a command does not fail if its reader is gone before the first line',
    async (here) => {
      const shell = here.shell('"$0" "$1" --help | true; exit 0');
      assert.equal((await shell.ended).stderr, '');
    },
  );
});

/** Returns the lines of a JSON log. */
const linesOf = (server: StartedServer): readonly Record<string, unknown>[] =>
  server.lines.map((line) => JSON.parse(line));
const messagesOf = (server: StartedServer): readonly unknown[] =>
  linesOf(server).map(({ msg }) => msg);
/** Returns the URL in the log, for either format. */
const addressOf = (server: StartedServer): Promise<string> =>
  until('the address', () => /http:\/\/127\.0\.0\.1:\d+/.exec(server.stdout)?.[0]);
const isHealthy = async (port: string): Promise<boolean | undefined> =>
  (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined))?.ok;
