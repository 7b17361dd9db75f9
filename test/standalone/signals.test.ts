// Tests the shutdown: signals, requests in flight, and timeouts.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { atEnd } from '../support/at-end.js';
import { apiKey, freePort, type StartedServer } from '../support/process.js';
import { type Client, header } from '../support/client.js';
import { requestBytes, connectTo } from '../support/fixture.js';
import { until } from '../support/waiting.js';
import { testInFolder } from '../support/working-folder.js';

const authorization = `Bearer ${apiKey}`;
const post = requestBytes('POST', '/v1/pets', {
  authorization,
  body: '{"name":"Rex","categoryId":1}',
});
/** The request without the end of its body. */
const partialPost = post.slice(0, -10);

/** Opens a connection until the end of the test, and sends a text. */
async function open(t: TestContext, { port }: StartedServer, text: string): Promise<Client> {
  return (await connectTo(t, { port })).send(text);
}

/** True if the process runs. A zombie has an empty command line. */
function isRunning(pid: string | undefined): boolean {
  const file = `/proc/${pid}/cmdline`;
  return existsSync(file) && readFileSync(file, 'utf8') !== '';
}

describe('the shutdown', { concurrency: 8 }, () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    testInFolder(
      `${signal} exits with 0 despite idle and silent connections, and is logged`,
      async (here, t) => {
        const server = await here.start();
        const idle = await open(t, server, requestBytes('GET', '/healthz'));
        assert.equal((await idle.nextResponse()).status, 200);
        await open(t, server, '');
        const sentAt = performance.now();
        await server.stopCleanly(signal);
        assert.ok(performance.now() - sentAt < 5_500);
        assert.equal(server.log.find(({ msg }) => msg === 'stopping')?.['signal'], signal);
        await idle.closed();
      },
    );
  }

  testInFolder(
    'finishes requests in flight, but waits less than 10 s for an incomplete request',
    async (here, t) => {
      const server = await here.start();
      const inFlight = await open(t, server, partialPost);
      const halfSent = await open(t, server, partialPost);
      await open(t, server, 'GET /v1/pets HTT');
      // Once this response has come, the server has read the requests above.
      assert.equal(await server.status('/healthz'), 200);
      const sentAt = performance.now();
      server.signal('SIGTERM');
      await server.waitForLog('stopping');
      const response = await inFlight.send(post.slice(partialPost.length)).nextResponse();
      assert.deepEqual([response.status, header(response, 'Connection')], [201, 'close']);
      assert.equal((await server.ended).code, 0);
      // The shutdown takes 8 s, and longer on a busy machine.
      assert.ok(performance.now() - sentAt < 20_000);
      await until('the end of the connection', () => halfSent.hasEnded);
      assert.match(
        here.read('data/pets.jsonl'),
        /^{"id":1,"name":"Rex","categoryId":1}\n{"commit"[^\n]*\n$/,
      );
    },
  );

  /** Sends a signal until the process ends, and returns its exit code. */
  async function insist(server: StartedServer, signal: NodeJS.Signals): Promise<number | null> {
    const timer = setInterval(() => server.signal(signal), 50);
    try {
      return (await server.ended).code;
    } finally {
      clearInterval(timer);
    }
  }

  for (const [second, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    testInFolder(
      `C75 a second signal, ${second}, exits at once with ${code}, unless it comes within a second`,
      async (here, t) => {
        const server = await here.start();
        await open(t, server, partialPost);
        assert.equal(await server.status('/healthz'), 200);
        const sentAt = performance.now();
        server.signal('SIGTERM');
        await server.waitForLog('stopping');
        assert.equal(await insist(server, second), code);
        const ms = performance.now() - sentAt;
        // A shutdown that waits for the request takes at least 8 s. A busy machine may add one or
        // two seconds.
        assert.ok(ms >= 1_000 && ms < 6_500, `${ms}`);
      },
    );
  }

  testInFolder(
    'C75 signals that are repeated at once count as one, and the request in flight is finished',
    {
      'twice.mjs': `process.on('SIGUSR2', () => {
        for (const signal of ['SIGINT', 'SIGTERM', 'SIGINT']) process.emit(signal, signal, 2);
      });`,
    },
    async (here, t) => {
      const env = { NODE_OPTIONS: `--import ${pathToFileURL(here.at('twice.mjs')).href}` };
      const server = await here.start('', env);
      const inFlight = await open(t, server, partialPost);
      assert.equal(await server.status('/healthz'), 200);
      server.signal('SIGUSR2');
      await server.waitForLog('stopping');
      assert.equal(
        (await inFlight.send(post.slice(partialPost.length)).nextResponse()).status,
        201,
      );
      assert.equal((await server.ended).code, 0);
      assert.equal(server.log.filter(({ msg }) => msg === 'stopping').length, 1);
    },
  );

  testInFolder(
    'C75 exits with 1 if requests are cut at the timeout, and logs their number',
    {
      'plugin.mjs': `export default ({ around, log }) =>
        around(() => new Promise(() => log('info', 'a request waits', {})));`,
    },
    async (here, t) => {
      const server = await here.start('--storage memory: --plugin ./plugin.mjs');
      for (let count = 0; count < 2; count++)
        await open(t, server, requestBytes('GET', '/v1/pets', { authorization }));
      // A connection without a request is not counted.
      await open(t, server, '');
      await until(
        'both requests to arrive',
        () => server.log.filter(({ msg }) => msg === 'a request waits').length === 2,
      );
      const ended = server.end();
      assert.equal((await ended).code, 1);
      const { level, requests } = await server.waitForLog(
        'requests were cut because they took too long',
      );
      assert.deepEqual([level, requests], ['error', 2]);
    },
  );

  for (const [signal, drain] of [
    ['SIGTERM', ''],
    ['SIGINT', ''],
    ['SIGTERM', ' --drain 30'],
    ['SIGINT', ' --drain 30'],
  ] as const) {
    testInFolder(
      `${signal} exits with 0 at once while the storage is still opening${drain && `, with${drain}`}`,
      async (here, t) => {
        const silent = await silentDatabase(t);
        const server = here.begin(`--storage ${silent.url}${drain}`);
        await silent.connected;
        const sentAt = performance.now();
        const { code, stdout, stderr } = await server.end(signal);
        assert.equal(code, 0);
        assert.ok(performance.now() - sentAt < 4_000);
        assert.match(stdout, /^{"level":"info","msg":"stopping"[^\n]*\n$/);
        assert.equal(stderr, '');
      },
    );
  }

  testInFolder(
    'C48 --drain keeps serving for its time with /readyz at 503, then stops',
    async (here, t) => {
      const server = await here.start('--storage memory: --drain 2');
      assert.equal(await server.status('/readyz'), 200);
      const sentAt = performance.now();
      server.signal('SIGTERM');
      const { signal, seconds } = await server.waitForLog('draining');
      assert.deepEqual([signal, seconds], ['SIGTERM', 2]);
      assert.equal(await server.status('/readyz'), 503);
      // On a new connection, because the server must still listen.
      assert.equal((await (await open(t, server, post)).nextResponse()).status, 201);
      assert.equal(await server.status('/v1/pets'), 200);
      assert.equal((await server.ended).code, 0);
      assert.ok(performance.now() - sentAt >= 2_000);
      assert.equal(server.log.find(({ msg }) => msg === 'stopping')?.['signal'], 'SIGTERM');
    },
  );

  testInFolder('C75 a second signal during the drain exits at once', async (here) => {
    const server = await here.start('PETSTORE_DRAIN=60 --storage memory:');
    server.signal('SIGINT');
    await server.waitForLog('draining');
    assert.equal(await insist(server, 'SIGTERM'), 143);
  });

  testInFolder('C75 SIGHUP stops a server with --dev', async (here) => {
    const server = await here.start('--storage memory: --dev');
    await server.stopCleanly('SIGHUP');
    assert.equal(server.log.find(({ msg }) => msg === 'stopping')?.['signal'], 'SIGHUP');
  });

  for (const redirection of ['', ' </dev/null', ' >log'])
    testInFolder(
      `C75 a server stops when its terminal closes${redirection && `, with${redirection}`}`,
      async (here) => {
        const port = await freePort();
        const env = { PETSTORE_API_KEYS: apiKey };
        const line = `--storage memory: --port ${port} --log-format json${redirection} 2>errors`;
        const terminal = here.onTerminal(line, env);
        const isListening = () =>
          fetch(`http://127.0.0.1:${port}/healthz`).then(
            () => true,
            () => false,
          );
        await until('the server', isListening);
        // Closes the terminal, as a closed window does.
        await terminal.end('SIGKILL');
        await until('the end of the server', async () => !(await isListening()));
        const log = here.names().includes('log') ? here.read('log') : terminal.output;
        const pid = /"pid":(\d+)/.exec(log)?.[1];
        await until('the end of the process', () => !isRunning(pid));
        // Node 20 would abort with a message when it exits without its terminal.
        assert.equal(here.read('errors'), '');
      },
    );

  // The hook runs in Node's loader thread and sends the signal when server.js imports its first
  // module.
  testInFolder(
    'SIGHUP does not end a service, even while it loads its modules or without a keys file',
    {
      'hook.mjs': `let isSent = false;
      export async function resolve(specifier, context, next) {
        if (!isSent && context.parentURL?.endsWith('/dist/server.js')) process.kill(process.pid, 'SIGHUP'), (isSent = true);
        return next(specifier, context);
      }`,
      'hooks.mjs':
        "import { register } from 'node:module'; register('./hook.mjs', import.meta.url);",
    },
    async (here) => {
      // Node 26 deprecates `register`, and Node 20 has nothing else.
      const env = {
        NODE_OPTIONS: `--no-deprecation --import ${pathToFileURL(here.at('hooks.mjs')).href}`,
      };
      const server = await here.start('--storage memory:', env);
      assert.equal(await server.status('/healthz'), 200);
      server.signal('SIGHUP');
      await server.waitForLog('keys read again');
      assert.equal(await server.status('/v1/pets'), 200);
      await server.stopCleanly();
    },
  );

  testInFolder('SIGUSR1 does not open the debugger of Node', async (here) => {
    const server = await here.start('--storage memory:');
    server.signal('SIGUSR1');
    // Meanwhile, the debugger's thread would have printed its address.
    server.signal('SIGHUP');
    await server.waitForLog('keys read again');
    assert.equal(await server.status('/v1/pets'), 200);
    const { stderr } = await server.stopCleanly();
    assert.equal(stderr, '');
  });

  testInFolder('SIGHUP ends a command', async (here, t) => {
    const silent = await silentDatabase(t);
    const migrating = here.begin(`migrate --storage ${silent.url}`);
    await silent.connected;
    assert.equal((await migrating.end('SIGHUP')).signal, 'SIGHUP');
  });

  testInFolder(
    'exits with 1 within 10 s if a plugin never closes, and logs the timeout',
    {
      'plugin.mjs': 'export default (host) => host.onClose(() => new Promise(() => {}));',
    },
    async (here) => {
      const server = await here.start('--storage memory: --plugin ./plugin.mjs');
      const sentAt = performance.now();
      assert.equal((await server.end()).code, 1);
      // Allows for a busy machine.
      assert.ok(performance.now() - sentAt < 20_000);
      const { level, milliseconds } = server.log.at(-1) ?? {};
      assert.deepEqual([level, milliseconds], ['error', 9_500]);
    },
  );
});

/** Starts a database that accepts connections and never responds. */
async function silentDatabase(t: TestContext) {
  const silent = createServer((socket) => atEnd(t, () => socket.destroy())).listen(0, '127.0.0.1');
  atEnd(t, () => silent.close());
  const connected = once(silent, 'connection');
  await once(silent, 'listening');
  const { port } = Object(silent.address());
  return { url: `postgres://nobody@127.0.0.1:${port}/nowhere`, connected };
}
