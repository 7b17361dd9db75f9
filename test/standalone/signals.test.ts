// The end: signals, what is under way then, and how long it may take.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { apiKey, folder, run, start, until, type RunningServer } from './process.js';

const postHead = (body: string): string => `POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${apiKey}\r\nContent-Length: ${body.length}\r\n\r\n`;
const body = '{"name":"Rex","categoryId":1}';

/** A connection, and what has come from it. */
async function open(server: RunningServer, text: string): Promise<{ socket: Socket; received: () => string; closed: Promise<void> }> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
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
      const server = await start(t, [], { cwd: folder(t) });
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
    const cwd = folder(t);
    const server = await start(t, [], { cwd });
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
    assert.ok(performance.now() - sentAt < 10_000);
    await halfSent.closed;
    assert.match(readFileSync(join(cwd, 'data/pets.jsonl'), 'utf8'), /^{"id":1,"name":"Rex","categoryId":1}\n{"commit"[^\n]*\n$/);
  });

  test('C48: while stopping, /readyz and adding answer 503 with Retry-After, and no connection is taken', async (t) => {
    const server = await start(t, [], { cwd: folder(t) });
    const ready = await open(server, 'GET /readyz HTTP/1.1\r\nHost: x\r\n');
    const add = await open(server, postHead(body).slice(0, -2));
    assert.equal((await server.get('/readyz')).status, 200);
    server.child.kill('SIGTERM');
    await server.said('stopping');
    // The line is written before the port is closed.
    await until('a refused connection', () => isRefused(server.url));
    ready.socket.write('\r\n');
    add.socket.write(`\r\n${body}`);
    for (const { received } of [ready, add]) {
      await until('503', () => received().includes('503 Service Unavailable'));
      assert.match(received(), /retry-after: [123]\r\n/i);
      assert.match(received(), /"code":"unavailable"/);
    }
    assert.equal((await server.ended).code, 0);
  });

  for (const [second, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    test(`a second signal, ${second}, ends it at once with ${code}`, async (t) => {
      const server = await start(t, [], { cwd: folder(t) });
      await open(server, postHead(body) + body.slice(0, 10));
      assert.equal((await server.get('/healthz')).status, 200);
      server.child.kill('SIGTERM');
      await server.said('stopping');
      const sentAt = performance.now();
      assert.equal((await server.end(second)).code, code);
      // A stop that waits for the request takes 8 s and more; a busy machine may take one or two for anything.
      assert.ok(performance.now() - sentAt < 5_000);
    });
  }

  test('a signal while the storage still opens: exit 0, and it never listens', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'pets.jsonl'), Array.from({ length: 50_000 }, (_, index) => `{"id":${index + 1},"name":"x","categoryId":1}\n`).join(''));
    // Its call is the last thing before the storage is opened.
    writeFileSync(join(cwd, 'plugin.mjs'), 'export default () => setImmediate(() => process.kill(process.pid, "SIGTERM"));');
    const args = ['--storage', 'file:pets.jsonl', '--plugin', './plugin.mjs'];
    const { code, stdout } = await run(args, { cwd, env: { PETSTORE_API_KEYS: apiKey, PORT: '0' } });
    assert.equal(code, 0);
    assert.match(stdout, /^{"level":"info","msg":"stopping"[^\n]*\n$/);
  });

  test('SIGHUP never ends it, without a keys file either', async (t) => {
    const server = await start(t, ['--storage', 'memory:'], { cwd: folder(t) });
    server.child.kill('SIGHUP');
    await server.said('keys read again');
    assert.equal((await server.get('/v1/pets')).status, 200);
    assert.equal((await server.end()).code, 0);
  });

  test('a plugin that never closes: ended within 10 s with exit 1, and the log says so', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'plugin.mjs'), 'export default (host) => host.onClose(() => new Promise(() => {}));');
    const server = await start(t, ['--storage', 'memory:', '--plugin', './plugin.mjs'], { cwd });
    const sentAt = performance.now();
    assert.equal((await server.end()).code, 1);
    assert.ok(performance.now() - sentAt < 10_000);
    assert.equal(server.log.at(-1)?.['level'], 'error');
  });

  test('a plugin that fails to close is named in the log and keeps nobody from the end', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'plugin.mjs'), 'export default (host) => host.onClose(async () => { throw new Error("no end"); });');
    const server = await start(t, ['--plugin', './plugin.mjs'], { cwd });
    assert.equal((await server.end()).code, 0);
    assert.equal(server.log.at(-1)?.['error'], 'no end');
  });
});

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
