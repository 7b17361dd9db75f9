/**
 * Tests of the time limits of C44: seconds in real time, in parallel; minutes by a mocked clock.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { ServerResponse } from 'node:http';
import { createServer, connect as connectSocket, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { describe, test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { createPetstore, memoryStorage, type Petstore, type Plugin } from '../../dist/index.js';
import { Connection, type PetstoreService } from '../../dist/http/connection.js';
import { Exchange } from '../../dist/http/exchange.js';
import { requestTimeout } from '../../dist/http/head.js';
import { ConnectionHeaders, HttpDate, UnsentBytes } from '../../dist/http/wire.js';
import { emptyReply } from '../../dist/reply.js';
import { Client, header } from '../support/client.js';
import { requestBytes, connectTo, key, start } from '../support/fixture.js';
import { blockedKeys, okReply, routePlugin, startWith } from '../support/scenes.js';
import { newCertificate } from '../support/certificate.js';
import { until } from '../support/waiting.js';

/** Asserts a time, with 0.3 s less and 2 s more for the sweep and a busy machine. */
function assertAbout(ms: number, seconds: number): void {
  assert.ok(ms > seconds * 1_000 - 300 && ms < seconds * 1_000 + 2_000, `${ms} ms`);
}

describe('C44 time limits', { concurrency: true }, () => {
  test('C44 serves pipelined requests whose client reads the responses 12 s late', async (t) => {
    const { petstore, port } = await start(t);
    for (let i = 0; i < 100; i++)
      await petstore.storage.insert({ name: 'x'.repeat(1_000), categoryId: 1n });
    const client = await connectTo(t, { port });
    const count = 240;
    const headers = [`X-Pad: ${'x'.repeat(1_500)}`];
    client.pause();
    client.send(requestBytes('GET', '/v1/pets?limit=100', { headers }).repeat(count));
    await sleep(12_000);
    client.resume();
    await client.expect(...Array<number>(count).fill(200));
  });

  for (const [what, rest] of [
    ['silent', ''],
    ['slow', 'a'],
  ] as const)
    test(`C44 gives a ${what} head 10 s after the slow response before it`, async (t) => {
      const slow = routePlugin('/slow', () => sleep(11_500, okReply('1')));
      const client = await connectTo(
        t,
        await startWith(t, slow),
        `${requestBytes('GET', '/slow')}GET /v1/pets HTTP/1.1\r\nX: `,
      );
      await client.expect(200);
      const since = performance.now();
      while (client.received === '' && performance.now() - since < 20_000) {
        client.send(rest);
        await sleep(200);
      }
      await client.expect('408 request_timeout');
      assertAbout(performance.now() - since, 10);
    });

  test('C44 closes a TLS connection without a complete handshake after 10 s', async (t) => {
    const { port, url } = await start(t, {}, { tls: newCertificate() });
    assert.equal(url, `https://127.0.0.1:${port}`);
    const since = performance.now();
    const silent = await Client.connect(port);
    const half = (await Client.connect(port)).send('\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03');
    await Promise.all([silent.closed(), half.closed()]);
    assertAbout(performance.now() - since, 10);
    // A connection with a complete handshake is served.
    const secure = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    secure.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
    assert.match(String(await once(secure, 'data')), /^HTTP\/1\.1 200 /);
    secure.destroy();
  });

  test('C44 C51 C52 delivers a response whole to a slow reader before it closes', async (t) => {
    const storage = memoryStorage();
    for (let i = 0; i < 100; i++)
      await storage.insert({ name: 'x'.repeat(200_000), categoryId: 1n });
    const begin = async (bytes: string): Promise<{ petstore: Petstore; socket: Socket }> => {
      const { petstore, port } = await start(t, { storage });
      const socket = connectSocket({ port, host: '127.0.0.1', allowHalfOpen: true });
      atEnd(t, () => socket.destroy());
      socket.write(bytes);
      await once(socket, 'readable');
      return { petstore, socket };
    };
    const verifying = requestBytes('GET', '/v1/pets?limit=100');
    const garbage = await begin(`${verifying}garbage\r\n\r\n`);
    const stopping = await begin(verifying);
    const stopped = stopping.petstore.close();
    // Longer than the server reads after its last response (C51).
    await sleep(1_500);
    await Promise.all(
      [garbage, stopping].map(async ({ socket }) => {
        let bytes = 0;
        socket.on('data', (chunk: Buffer) => (bytes += chunk.length));
        await once(socket, 'end');
        assert.ok(bytes > 20_000_000, `only ${bytes} bytes`);
        socket.end();
      }),
    );
    await stopped;
  });
});

/**
 * Creates a connection with a request in flight, a clock and byte counts that the test sets (white
 * box).
 */
async function sweptConnection(t: TestContext) {
  const server = createServer().listen(0, '127.0.0.1');
  atEnd(t, () => server.close());
  await once(server, 'listening');
  const client = connectSocket(Object(server.address()).port, '127.0.0.1').pause();
  atEnd(t, () => client.destroy());
  const [socket]: Socket[] = await once(server, 'connection');
  assert.ok(socket);
  const says = { writableLength: 0, bytesWritten: 0, bytesRead: 0 };
  for (const name of ['writableLength', 'bytesWritten', 'bytesRead'] as const)
    Object.defineProperty(socket, name, { get: () => says[name] });
  const routed = { reply: emptyReply(204, []), resource: undefined, keyName: undefined };
  let respond = (): void => undefined;
  const service: PetstoreService = {
    handle: () => new Promise((resolve) => (respond = () => resolve(routed))),
    replyToLateError: () => assert.fail(),
    replyToParserError: () => assert.fail(),
    logError: () => assert.fail(),
    logWarning: () => assert.fail(),
    reportResponse: () => undefined,
    reportEnd: () => undefined,
    onAbandoned: () => undefined,
    isStopping: false,
    watchesEnds: false,
    resets: 0,
    now: Date.now,
  };
  const date = new HttpDate(service);
  const unsent = new UnsentBytes();
  const connection = new Connection(
    socket,
    { service, unsent, date, queued: 0 },
    new ConnectionHeaders(date, 72),
  );
  /** Receives a request, of which only the head has arrived. */
  const receiveHead = (): Exchange => {
    const exchange = new Exchange(socket);
    exchange.response = Object.assign(new ServerResponse(exchange), { shouldKeepAlive: true });
    connection.accept(exchange);
    return exchange;
  };
  receiveHead().push(null);

  const begin = performance.now();
  /** Sweeps the connection as if `seconds` had passed, and returns its socket. */
  const socketAt = (seconds: number): Socket => {
    connection.sweep(begin + seconds * 1_000);
    return socket;
  };
  /** Sends the response to the request in flight, after which the connection is idle. */
  const becomeIdle = async (): Promise<void> => {
    respond();
    await sleep(50);
  };
  return { says, connection, unsent, receiveHead, socketAt, becomeIdle };
}

test('C44 destroys a connection whose client reads less than 64 KiB in 60 s', async (t) => {
  const { says, socketAt } = await sweptConnection(t);
  const sweep = (seconds: number, readBytes = 0): boolean => {
    says.writableLength -= readBytes;
    return socketAt(seconds).destroyed;
  };

  sweep(1);
  assert.equal(sweep(62), false, 'no response is due');
  says.writableLength = says.bytesWritten = 10_000_000;
  assert.equal(sweep(63), false);
  assert.equal(sweep(120, 65_536), false, 'it read enough');
  assert.equal(sweep(179, 65_535), false, 'the minute is not over');
  assert.equal(sweep(180, 1), false, 'it read just enough');
  assert.equal(sweep(239, 65_535), false);
  assert.equal(sweep(240.5), true, 'one byte too few in a minute');
});

test('C44 gives a head 10 s, even if it begins at the end of the 72 idle seconds', async (t) => {
  const { says, socketAt, becomeIdle } = await sweptConnection(t);
  await becomeIdle();
  assert.equal(socketAt(0).writableEnded, false);
  assert.equal(socketAt(71.9).writableEnded, false);
  says.bytesRead = 1;
  assert.equal(socketAt(72.4).writableEnded, false);
  assert.equal(socketAt(82.3).writableEnded, false);
  assert.equal(socketAt(82.5).writableEnded, true);
});

test('C44 counts the 30 s of a request from the first byte of its head', async (t) => {
  const { says, receiveHead, socketAt, becomeIdle } = await sweptConnection(t);
  await becomeIdle();
  says.bytesRead = 1;
  socketAt(-5);
  const exchange = receiveHead();
  socketAt(24.9);
  assert.equal(exchange.failure, undefined);
  socketAt(25.1);
  assert.equal(exchange.failure, requestTimeout);
});

test('C44 gives an idle connection 72 s, even after a head that Node reported as late', async (t) => {
  const { connection, receiveHead, socketAt, becomeIdle } = await sweptConnection(t);
  // Node may report a head while the response before it is due, which is too early.
  connection.fail(requestTimeout);
  await becomeIdle();
  receiveHead().push(null);
  await becomeIdle();
  socketAt(0);
  assert.equal(socketAt(71.9).writableEnded, false);
  assert.equal(socketAt(72.1).writableEnded, true);
});

test('C55 counts a short response as unsent until the socket has taken it', async (t) => {
  const { says, unsent, becomeIdle } = await sweptConnection(t);
  // One byte more is over the limit.
  unsent.add(2 ** 26);
  const adding = t.mock.method(unsent, 'add');
  says.writableLength = 1;
  await becomeIdle();
  assert.equal(adding.mock.callCount(), 1);
  await until('the end of the write', () => !unsent.isFull);
});

for (const nodeInterface of ['auto', 'documented'] as const)
  test(`C44 destroys the connection of a client that stops reading (${nodeInterface})`, async (t) => {
    const real = performance.now.bind(performance);
    let ahead = 0;
    t.mock.method(performance, 'now', () => real() + ahead);
    const storage = memoryStorage();
    for (let i = 0; i < 100; i++)
      await storage.insert({ name: 'x'.repeat(200_000), categoryId: 1n });
    const ends: boolean[] = [];
    const watching: Plugin = ({ onResponseEnd }) =>
      onResponseEnd(({ isWhole }) => void ends.push(isWhole));
    const { port } = await start(t, { storage, plugins: [watching] }, { nodeInterface });
    const begin = async (): Promise<Socket> => {
      const socket = connectSocket({ port, host: '127.0.0.1' });
      atEnd(t, () => socket.destroy());
      socket.write(requestBytes('GET', '/v1/pets?limit=100'));
      await once(socket, 'readable');
      return socket;
    };

    const reader = await begin();
    await begin();
    reader.resume();
    await until('the end of the response that is read', () => ends.length > 0);
    // The server sweeps twice a second.
    for (let sweeps = 0; ends.length < 2 && sweeps < 10; sweeps++) {
      ahead += 61_000;
      await sleep(550);
    }
    assert.deepEqual(ends, [true, false]);
  });

test('C44 closes an idle connection after 72 s, but no connection in use', async (t) => {
  const real = performance.now.bind(performance);
  let ahead = 0;
  t.mock.method(performance, 'now', () => real() + ahead);
  const { keys, unblock } = blockedKeys();
  const { port } = await start(t, { keys: (token) => (token === 'slow' ? keys() : 'quick') });
  const clients = await Promise.all([Client, Client, Client].map((each) => each.connect(port)));
  const [idle, asking, waiting] = clients;
  assert.ok(idle && asking && waiting);
  const served = (client: Client) => client.send(requestBytes('GET', '/v1/pets')).expect(200);
  for (const client of clients) await served(client);
  waiting.send(requestBytes('GET', '/v1/pets', { authorization: 'Bearer slow' }));
  // The server sweeps twice a second, and counts from its first sweep.
  for (let sweeps = 0; !idle.hasEnded && sweeps < 20; sweeps++) {
    await served(asking);
    ahead += 40_000;
    await sleep(550);
  }
  assert.ok(ahead > 72_000);
  await idle.closed();
  await served(asking);
  unblock();
  await waiting.expect(200);
  // The idle time begins with the response, not with the last byte that arrived.
  await sleep(1_100);
  await served(waiting);
});

test('C44 closes a connection after keepAliveSeconds, and sends them in Keep-Alive', async (t) => {
  const { port } = await start(t, {}, { keepAliveSeconds: 1 });
  const client = await connectTo(t, { port }, requestBytes('GET', '/v1/pets'));
  assert.equal(header(await client.expect(200), 'Keep-Alive'), 'timeout=1');
  await client.closed();

  const long = await start(t, {}, { keepAliveSeconds: 600 });
  const kept = await connectTo(t, long, requestBytes('GET', '/v1/pets'));
  assert.equal(header(await kept.expect(200), 'Keep-Alive'), 'timeout=600');
});

test('listen rejects keepAliveSeconds that are not an integer from 1 to a day', async (t) => {
  const petstore = createPetstore({ keys: [key] });
  atEnd(t, () => petstore.close());
  for (const keepAliveSeconds of [0, -1, 1.5, 86_401, NaN, Infinity, Object('72')])
    await assert.rejects(petstore.listen({ port: 0, keepAliveSeconds }), {
      name: 'TypeError',
      message: 'keepAliveSeconds must be an integer from 1 to 86400',
    });
});
