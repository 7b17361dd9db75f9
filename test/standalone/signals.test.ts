// The end: signals, what is under way then, and how long it may take.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { atEnd } from '../support/at-end.js';
import { apiKey, folder, StartedServer, serverFile } from '../support/process.js';
import { until } from '../support/waiting.js';
import { WorkingFolder } from '../support/working-folder.js';

const postHead = (body: string): string =>
  `POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${apiKey}\r\nContent-Length: ${body.length}\r\n\r\n`;
const body = '{"name":"Rex","categoryId":1}';

/** A connection, and what has come from it. */
async function open(
  server: StartedServer,
  text: string,
): Promise<{ socket: Socket; received: () => string; closed: Promise<void> }> {
  const socket = connect(server.port, '127.0.0.1');
  let received = '';
  socket.setEncoding('latin1').on('data', (piece) => (received += piece));
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.write(text);
  return { socket, received: () => received, closed };
}

describe('the end', { concurrency: 8 }, () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} says so and exits 0, idle and half-open connections or not`, async (t) => {
      const server = await new WorkingFolder(t).start();
      const idle = await open(server, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      await until('an answer', () => idle.received().includes('200 OK'));
      await open(server, '');
      const sentAt = performance.now();
      const { code } = await server.end(signal);
      assert.equal(code, 0);
      assert.ok(performance.now() - sentAt < 5_500);
      assert.equal(server.log.find(({ msg }) => msg === 'stopping')?.['signal'], signal);
      await idle.closed;
    });
  }

  test('requests under way finish and are stored; a half-sent one and a silent one do not hold it beyond 10 s', async (t) => {
    const here = new WorkingFolder(t);
    const server = await here.start();
    const underWay = await open(server, postHead(body) + body.slice(0, 10));
    const halfSent = await open(server, postHead(body) + body.slice(0, 10));
    await open(server, 'GET /v1/pets HTT');
    // Answered on its own connection, so everything before it has been read too.
    assert.equal((await server.get('/healthz')).status, 200);
    const sentAt = performance.now();
    server.child.kill('SIGTERM');
    await server.said('stopping');
    underWay.socket.write(body.slice(10));
    await until('201', () => underWay.received().includes('201 Created'));
    assert.match(underWay.received(), /connection: close/i);
    const { code } = await server.ended;
    assert.equal(code, 0);
    // It takes 8 s; a busy machine may take some more.
    assert.ok(performance.now() - sentAt < 20_000);
    await halfSent.closed;
    assert.match(
      here.read('data/pets.jsonl'),
      /^{"id":1,"name":"Rex","categoryId":1}\n{"commit"[^\n]*\n$/,
    );
  });

  test('C48: while stopping, requests on open connections are answered as ever and end them, and none is taken', async (t) => {
    const server = await new WorkingFolder(t).start();
    const ready = await open(server, 'GET /readyz HTTP/1.1\r\nHost: x\r\n');
    const add = await open(server, postHead(body).slice(0, -2));
    assert.equal((await server.get('/readyz')).status, 200);
    server.child.kill('SIGTERM');
    await server.said('stopping');
    // The line is written before the port is closed.
    await until('a refused connection', () => isRefused(server.url));
    ready.socket.write('\r\n');
    add.socket.write(`\r\n${body}`);
    await until('201', () => add.received().includes('201 Created'));
    await add.closed;
    assert.match(add.received(), /connection: close\r\n/i);
    await until('503', () => ready.received().includes('503 Service Unavailable'));
    assert.match(ready.received(), /retry-after: [123]\r\n/i);
    assert.match(ready.received(), /"code":"unavailable"/);
    assert.equal((await server.ended).code, 0);
  });

  for (const [second, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    test(`a second signal, ${second}, ends it at once with ${code}`, async (t) => {
      const server = await new WorkingFolder(t).start();
      await open(server, postHead(body) + body.slice(0, 10));
      assert.equal((await server.get('/healthz')).status, 200);
      server.child.kill('SIGTERM');
      await server.said('stopping');
      const sentAt = performance.now();
      assert.equal((await server.end(second)).code, code);
      // A stop that waits for the request takes 8 s and more; a busy machine may take one or two
      // for anything.
      assert.ok(performance.now() - sentAt < 5_000);
    });
  }

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} while the storage still opens, however long it may: exit 0 at once, and it never listens`, async (t) => {
      const silent = await silentDatabase(t);
      const env = { PETSTORE_API_KEYS: apiKey, PORT: '0' };
      const args = [serverFile, '--storage', silent.url];
      const server = new StartedServer(process.execPath, args, { cwd: folder(t), env });
      atEnd(t, () => server.end('SIGKILL'));
      await silent.connected;
      const sentAt = performance.now();
      const { code, stdout, stderr } = await server.end(signal);
      assert.equal(code, 0);
      assert.ok(performance.now() - sentAt < 4_000);
      assert.match(stdout, /^{"level":"info","msg":"stopping"[^\n]*\n$/);
      assert.equal(stderr, '');
    });
  }

  test('C48: with --drain it goes on listening for that long with /readyz at 503, and then stops', async (t) => {
    const server = await new WorkingFolder(t).start('--storage memory: --drain 2');
    assert.equal((await server.get('/readyz')).status, 200);
    const sentAt = performance.now();
    server.child.kill('SIGTERM');
    const { signal, seconds } = await server.said('draining');
    assert.deepEqual([signal, seconds], ['SIGTERM', 2]);
    const ready = await server.get('/readyz');
    assert.equal(ready.status, 503);
    assert.match(ready.headers.get('Retry-After') ?? '', /^[123]$/);
    // On a connection of its own: it still listens.
    const add = await open(server, postHead(body) + body);
    await until('201', () => add.received().includes('201 Created'));
    assert.equal((await server.get('/v1/pets')).status, 200);
    assert.equal((await server.ended).code, 0);
    assert.ok(performance.now() - sentAt >= 2_000);
    assert.equal(server.log.find(({ msg }) => msg === 'stopping')?.['signal'], 'SIGTERM');
  });

  test('a second signal while it drains ends it at once', async (t) => {
    const env = { PETSTORE_DRAIN: '60', PETSTORE_STORAGE: 'memory:' };
    const server = await new WorkingFolder(t).start('', env);
    server.child.kill('SIGINT');
    await server.said('draining');
    assert.equal((await server.end('SIGTERM')).code, 143);
  });

  test('SIGHUP does not end it while it is still loading itself', async (t) => {
    const here = new WorkingFolder(t);
    // Node's own loader, in another thread, sends it as soon as the entry asks for the first of the
    // others.
    const hook = `let isSent = false;
      export async function resolve(specifier, context, next) {
        if (!isSent && context.parentURL?.endsWith('/dist/server.js')) process.kill(process.pid, 'SIGHUP'), (isSent = true);
        return next(specifier, context);
      }`;
    here.write('hook.mjs', hook);
    here.write(
      'hooks.mjs',
      "import { register } from 'node:module'; register('./hook.mjs', import.meta.url);",
    );
    const env = { NODE_OPTIONS: `--import ${pathToFileURL(here.at('hooks.mjs')).href}` };
    const server = await here.start('--storage memory:', env);
    assert.equal((await server.get('/healthz')).status, 200);
    assert.equal((await server.end()).code, 0);
  });

  test('SIGHUP ends a command, as whoever closes its terminal expects', async (t) => {
    const silent = await silentDatabase(t);
    const migrating = new WorkingFolder(t).begin(['migrate', '--storage', silent.url]);
    atEnd(t, () => migrating.end('SIGKILL'));
    await silent.connected;
    assert.equal((await migrating.end('SIGHUP')).signal, 'SIGHUP');
  });

  test('SIGHUP never ends it, without a keys file either', async (t) => {
    const server = await new WorkingFolder(t).start('--storage memory:');
    server.child.kill('SIGHUP');
    await server.said('keys read again');
    assert.equal((await server.get('/v1/pets')).status, 200);
    assert.equal((await server.end()).code, 0);
  });

  test('a plugin that never closes: ended within 10 s with exit 1, and the log says so', async (t) => {
    const here = new WorkingFolder(t, {
      'plugin.mjs': 'export default (host) => host.onClose(() => new Promise(() => {}));',
    });
    const server = await here.start('--storage memory: --plugin ./plugin.mjs');
    const sentAt = performance.now();
    assert.equal((await server.end()).code, 1);
    // A busy machine may take longer to tell.
    assert.ok(performance.now() - sentAt < 20_000);
    const { level, milliseconds } = server.log.at(-1) ?? {};
    assert.deepEqual([level, milliseconds], ['error', 9_500]);
  });

  test('a plugin that fails to close is named in the log and keeps nobody from the end', async (t) => {
    const here = new WorkingFolder(t, {
      'plugin.mjs':
        'export default (host) => host.onClose(async () => { throw new Error("no end"); });',
    });
    const server = await here.start('--plugin ./plugin.mjs');
    assert.equal((await server.end()).code, 0);
    assert.equal(server.log.at(-1)?.['error'], 'no end');
  });
});

/** A database that takes connections and says nothing, and the first connection to it. */
async function silentDatabase(
  t: TestContext,
): Promise<{ url: string; connected: Promise<unknown> }> {
  const silent = createServer((socket) => atEnd(t, () => socket.destroy())).listen(0, '127.0.0.1');
  atEnd(t, () => silent.close());
  const connected = once(silent, 'connection');
  await once(silent, 'listening');
  const address = silent.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { url: `postgres://nobody@127.0.0.1:${address.port}/nowhere`, connected };
}

/** Whether nobody takes a new connection any more. */
async function isRefused(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  try {
    await once(socket, 'connect');
    return false;
  } catch {
    return true;
  } finally {
    socket.destroy();
  }
}
