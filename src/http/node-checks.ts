/**
 * The requests of the self-check to the stub (C80). Each check fails if the undocumented behaviour
 * of Node that it needs has changed, or if Node's parser accepts what it must refuse.
 */
import type { Socket } from 'node:net';
import { pause, ticks, type Probe } from './probe.js';
import { maxBodyBytes, type StubService } from './stub-service.js';

/** @throws Error if Node has changed. `open` opens another connection to the stub. */
export type NodeCheck = (probe: Probe, stub: StubService, open: () => Probe) => Promise<void>;

export const get = (...headers: readonly string[]): string => request('GET /', headers);
export const post = (...headers: readonly string[]): string => request('POST /', headers);

function request(line: string, headers: readonly string[]): string {
  return `${[`${line} HTTP/1.1`, 'Host: a', ...headers].join('\r\n')}\r\n\r\n`;
}

const chunked = 'Transfer-Encoding: chunked';

/** The kinds of requests that a server gets most, each with the statuses of its responses. */
export const commonRequests: Readonly<Record<string, readonly [bytes: string, number[]]>> = {
  GET: [get(), [200]],
  POST: [`${post('Content-Length: 3')}get`, [200]],
  chunked: [`${post(chunked)}3\r\nget\r\n0\r\n\r\n`, [200]],
  Expect: [`${post('Content-Length: 3', 'Expect: 100-continue')}get`, [100, 200]],
};

/** Requests that are not valid HTTP (C42). */
const malformed: readonly string[] = [
  'garbage\r\n\r\n',
  'GET / HTTP/1.1\r\n\r\n',
  'GET / HTTP/1.1\nHost: a\n\n',
  'GET / HTTP/1.2\r\nHost: a\r\n\r\n',
  get('X'),
  get('X : a'),
  get('X: a\x01'),
  post('Content-Length: 1', 'Content-Length: 1'),
  `${post('Content-Length: 1', chunked)}0\r\n\r\n`,
  post('Content-Length: +1'),
  post('Transfer-Encoding: gzip'),
  `${post(chunked)}x\r\n`,
  `${post(chunked)}1\na\r\n0\r\n\r\n`,
  `${post(chunked)}1\r\nab\r\n0\r\n\r\n`,
];

/** The checks by what they try, each for a connection of its own. */
export const nodeChecks: Readonly<Record<string, NodeCheck>> = {
  'requests with bodies on one connection': async (probe) => {
    probe.send(`${post('Content-Length: 3')}one`);
    await probe.expect([200], 'one');
    probe.send(`${post(chunked)}3\r\ntwo\r\n0\r\n\r\n`);
    await probe.expect([200], 'two');
    probe.send(post('Content-Length: 5', 'Expect: 100-continue'));
    await probe.expect([100], '');
    probe.send('three');
    await probe.expect([200], 'three');
    probe.send(get('Connection: close') + get());
    await probe.expect([200], 'get');
    await probe.ends();
  },
  'a head as it was sent': async (probe, stub) => {
    const target = 'http://a//Head//%2f/../%zz?A=%C3&&b';
    // Node's parser passes more than 32 headers in parts.
    const numbered = Array.from({ length: 40 }, (_, i) => [`N${i}`, `${i}`]);
    const lines = ['X-Y:  \t b\xe9 c \t', 'x-y:', ...numbered.map((each) => each.join(': '))];
    probe.send(`${request(`PATCH ${target}`, [...lines, chunked])}0\r\n\r\n`);
    await probe.expect([200], 'get');
    const { method, rawHeaders } = stub.find(target);
    const headers = [['Host', 'a'], ['X-Y', 'b\xe9 c'], ['x-y', ''], ...numbered];
    const expected = [...headers.flat(), ...chunked.split(': ')];
    if (`${method} ${rawHeaders.join('\n')}` !== `PATCH ${expected.join('\n')}`)
      throw new Error('the method or the headers are changed');
  },
  'bodies that are not read': async (probe) => {
    for (const method of ['GET', 'DELETE', 'PUT']) {
      probe.send(`${request(`${method} /`, ['Content-Length: 5'])}GET /`);
      probe.send(`${request(`${method} /`, [chunked])}5\r\nGET /\r\n0\r\n\r\n`);
      await probe.expect([200, 200], 'get');
    }
  },
  'a body in parts': async (probe) => {
    for (const part of [request('POST /late', ['Content-Length: 6']), 'ab', 'cd', 'ef']) {
      probe.send(part);
      await ticks(3);
    }
    await probe.expect([200], 'abcdef');
    probe.send(`${post(chunked)}2\r\nab\r\n`);
    await ticks(3);
    probe.send('2\r\ncd\r\n0\r\n\r\n');
    await probe.expect([200], 'abcd');
  },
  'a body over the limit': async (probe, stub) => {
    const half = 'x'.repeat(maxBodyBytes);
    probe.send(request('POST /long', [`Content-Length: ${4 * half.length}`]) + half);
    while (!stub.has('/long')) await ticks(1);
    probe.send(half);
    await probe.expect([413], '"status":413}');
    const { socket } = stub.find('/long');
    await ticks(3);
    // A client that is still sending would lose its response.
    if (socket.destroyed) throw new Error('the connection is closed before its request is read');
  },
  'responses to a client that closed its sending side': async (probe) => {
    probe.send(get() + get() + get());
    probe.end();
    await probe.expect([200, 200, 200], 'get');
    await probe.ends();
  },
  'clients that close their sending side too early': async (probe, _stub, open) => {
    const other = open();
    probe.send(`${post('Content-Length: 9')}one`);
    other.send(get().slice(0, -1));
    for (const each of [probe, other]) {
      each.end();
      await each.expect([400], '"status":400}');
      await each.ends();
    }
  },
  'many pipelined requests': async (probe) => {
    const count = 128;
    probe.send(get().repeat(count));
    await probe.expect(Array<number>(count).fill(200), 'get');
    probe.send(get());
    await probe.expect([200], 'get');
  },
  'pipelined requests that wait': async (probe, stub) => {
    const { socket, release } = await hold(probe, stub, '/hold');
    probe.send(get());
    while (!socket.isPaused()) await ticks(1);
    const { bytesRead } = socket;
    probe.send(get());
    await ticks(10);
    if (socket.bytesRead > bytesRead) throw new Error('the socket is read while a request waits');
    release();
    await probe.expect([200, 200, 200], 'get');
  },
  'requests while a response is not sent': async (probe, stub) => {
    const { socket, release } = await hold(probe, stub, '/unsent');
    // The response stays in the socket, as if the client did not read.
    socket.cork();
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n${'x'.repeat(99_999)}`);
    probe.send(get());
    while (!socket.isPaused()) await ticks(1);
    release();
    socket.uncork();
    await probe.expect([200, 200, 200], 'get');
    probe.send(get());
    await probe.expect([200], 'get');
  },
  'malformed requests': async (probe, _stub, open) => {
    probe.send(get());
    await probe.expect([200], 'get');
    probe.send('garbage\r\n\r\n');
    await probe.expect([400], '"status":400}');
    probe.send(get());
    await probe.ends();
    await Promise.all(
      malformed.map(async (bytes) => {
        const other = open();
        other.send(bytes);
        await other.expect([400], '"status":400}').catch((cause: unknown) => {
          throw new Error(`${JSON.stringify(bytes)} is not refused`, { cause });
        });
        await other.ends();
      }),
    );
  },
  'reading after the last response': async (probe, stub) => {
    probe.send(request('GET /last', ['Connection: close']));
    await probe.expect([200], 'get');
    const { socket } = stub.find('/last');
    probe.send(get().repeat(16_000));
    while (!socket.destroyed) await ticks(1);
    // The limit is 64 KiB, and one read has as many bytes.
    if (socket.bytesRead > 200_000) throw new Error('it has no limit of bytes');
  },
  'tabs after a Content-Length': async (probe) => {
    probe.send(`${post('Content-Length: 3\t')}one`);
    await probe.expect([200], 'one');
  },
  'late heads': async (probe, stub, open) => {
    const idle = open();
    idle.send(request('GET /idle', []));
    await idle.expect([200], 'get');
    // Its own head may have been late on a busy machine.
    stub.late.delete(stub.find('/idle').socket);
    probe.send(`${request('GET /late-head', [])}GET`);
    await probe.expect([200], 'get');
    const { socket } = stub.find('/late-head');
    while (!stub.late.has(socket)) await pause();
    if (stub.late.has(stub.find('/idle').socket)) throw new Error('an idle connection is late');
  },
  'a head of the largest size': async (probe) => {
    probe.send(request(`GET /${'x'.repeat(16_000)}`, [`X: ${'x'.repeat(16_000)}`]));
    await probe.expect([200], 'get');
  },
  'requests with too large headers': async (probe, _stub, open) => {
    probe.send(get(`X: ${'x'.repeat(50_000)}`).slice(0, -4));
    const other = open();
    // With Host, 100 header lines are allowed.
    other.send(get(...Array.from({ length: 99 }, () => 'X: y')));
    await other.expect([200], 'get');
    other.send(get(...Array.from({ length: 100 }, () => 'X: y')));
    for (const each of [probe, other]) {
      await each.expect([431], '"status":431}');
      await each.ends();
    }
  },
  'unknown methods': async (probe, _stub, open) => {
    const other = open();
    probe.send(get() + request(`PURR /${'x'.repeat(10_000)}`, []));
    await probe.expect([200, 501], '"status":501}');
    // A method of RTSP, which the parser knows.
    other.send(request('PLAY /', []));
    await other.expect([501], '"status":501}');
    for (const each of [probe, other]) await each.ends();
  },
  'an Expect that is not supported': async (probe) => {
    probe.send(get('Expect: miracles'));
    await probe.expect([417], '"status":417}');
    probe.send(get());
    await probe.expect([200], 'get');
  },
  'requests with an Upgrade header': async (probe, _stub, open) => {
    probe.send(get('Connection: Upgrade', 'Upgrade: websocket') + get());
    await probe.expect([200], 'get');
    const other = open();
    other.send(`${post('Connection: Upgrade', 'Upgrade: h2c', 'Content-Length: 3')}one`);
    await other.expect([200], 'one');
    for (const each of [probe, other]) await each.ends();
  },
  'CONNECT requests': async (probe) => {
    probe.send(request('CONNECT a:443', []));
    await probe.expect([200], 'get');
    await probe.ends();
  },
  'HTTP/1.0': async (probe) => {
    probe.send('GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n');
    await probe.expect([200], 'get');
    probe.send('GET / HTTP/1.0\r\n\r\n');
    await probe.expect([200], 'get');
    await probe.ends();
  },
  'clients that leave in the middle of a body': async (probe, stub) => {
    probe.send(`${request('POST /left', ['Content-Length: 9'])}one`);
    while (!stub.has('/left')) await ticks(1);
    const { socket } = stub.find('/left');
    probe.destroy();
    while (!socket.destroyed) await ticks(1);
  },
};

/** Sends a request that waits until `release` is called. Returns its socket once it waits. */
async function hold(
  probe: Probe,
  stub: StubService,
  path: string,
): Promise<{ readonly socket: Socket; readonly release: () => void }> {
  const released = stub.hold(path);
  probe.send(request(`GET ${path}`, []));
  while (!stub.has(path)) await ticks(1);
  return { socket: stub.find(path).socket, release: released };
}
