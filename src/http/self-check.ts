/**
 * Checks that this Node has the undocumented behaviour that `http/node.ts` lists (C80): serves a
 * stub on a loopback port, and sends it requests of each kind.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setImmediate, setTimeout } from 'node:timers';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isPetstoreError, reasonOf } from '../errors.js';
import { asByteString } from '../json.js';
import { machineClock } from '../clock.js';
import { internalErrorReply, jsonReply, replyTo, type Reply } from '../reply.js';
import { checkExpectation, type Message } from '../request.js';
import type { RoutedReply, PetstoreService, SharedState } from './connection.js';
import { Exchange } from './exchange.js';
import { lingerMs } from './node.js';
import { openPort } from './port.js';
import { Probe, ticks } from './probe.js';
import { HttpDate, UnsentBytes } from './wire.js';

/** The time in which the whole check must pass. A slow machine takes some 0.1 s. */
const timeoutMs = 5_000;

/** The most bytes of a body. */
const maxBodyBytes = 65_536;

let result: Promise<readonly string[]> | undefined;

/** Checks this Node, once per process. Resolves to what failed, one sentence each. */
export function selfCheck(): Promise<readonly string[]> {
  return (result ??= runChecks());
}

/** Stands in for the petstore. It echoes bodies, and remembers requests until they are checked. */
class Stub implements PetstoreService {
  readonly isStopping = false;
  readonly resets = 0;
  /** The requests so far. */
  readonly seen: Exchange[] = [];
  /** The sockets of which Node has reported an error, such as a late head. */
  readonly late = new Set<unknown>();
  /** The number of requests in flight. */
  inFlight = 0;
  /** Ends the wait of `/hold`. */
  release = (): void => undefined;
  #hold = (_held: Exchange): void => undefined;
  /** Resolves to the request of `/hold` once it has arrived. */
  readonly held = new Promise<Exchange>((resolve) => (this.#hold = resolve));

  has(path: string): boolean {
    return this.seen.some(({ target }) => target === path);
  }

  /** Returns the request of a path. @throws Error if no such request has arrived */
  find(path: string): Exchange {
    const found = this.seen.find(({ target }) => target === path);
    if (found === undefined) throw new Error('no request arrived');
    return found;
  }

  /** The last request. @throws Error if no request has arrived */
  get last(): Exchange {
    const last = this.seen.at(-1);
    if (last === undefined) throw new Error('no request arrived');
    return last;
  }

  async handle(message: Message): Promise<RoutedReply> {
    if (message instanceof Exchange) this.seen.push(message);
    this.inFlight++;
    const reply = await this.#reply(message).catch((error: unknown) =>
      isPetstoreError(error) ? replyTo(error) : internalErrorReply,
    );
    this.inFlight--;
    return { reply, resource: undefined, keyName: undefined };
  }

  async #reply(message: Message): Promise<Reply> {
    checkExpectation(message.readHead());
    if (message.target === '/hold' && message instanceof Exchange)
      await new Promise<void>((resolve) => {
        this.release = resolve;
        this.#hold(message);
      });
    // Half of a body arrives before it is read.
    if (message.target === '/late') await ticks(4);
    const body = message.method === 'POST' ? await message.readBody(maxBodyBytes) : 'get';
    return jsonReply(200, asByteString(body));
  }

  replyToLateError(error: Parameters<PetstoreService['replyToLateError']>[0]): Reply {
    return replyTo(error);
  }

  replyToParserError(error: Parameters<PetstoreService['replyToParserError']>[0]): Reply {
    return replyTo(error);
  }

  logError(): void {}
  logWarning(): void {}
  reportResponse(): void {}
  reportEnd(): void {}
  onAbandoned(): void {}

  now(): number {
    return machineClock();
  }
}

const get = (...headers: readonly string[]): string => request('GET /', headers);
const post = (...headers: readonly string[]): string => request('POST /', headers);

function request(line: string, headers: readonly string[]): string {
  return `${[`${line} HTTP/1.1`, 'Host: a', ...headers].join('\r\n')}\r\n\r\n`;
}

const chunked = 'Transfer-Encoding: chunked';

type Check = (probe: Probe, stub: Stub) => Promise<void>;

/** The checks by name. Each uses a connection of its own. */
const checks: Readonly<Record<string, Check>> = {
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
  'responses to a client that closed its sending side': async (probe) => {
    probe.send(get() + get() + get());
    probe.end();
    await probe.expect([200, 200, 200], 'get');
    await probe.ends();
  },
  'pipelined requests that wait': async (probe, stub) => {
    probe.send(request('GET /hold', []));
    const { socket } = await stub.held;
    probe.send(get());
    while (!socket.isPaused()) await ticks(1);
    const { bytesRead } = socket;
    probe.send(get());
    await ticks(10);
    if (socket.bytesRead > bytesRead) throw new Error('the socket is read while a request waits');
    stub.release();
    await probe.expect([200, 200, 200], 'get');
  },
  'malformed requests': async (probe) => {
    probe.send(get());
    await probe.expect([200], 'get');
    probe.send('garbage\r\n\r\n');
    await probe.expect([400], '"status":400}');
    probe.send(get());
    await probe.ends();
  },
  'reading after the last response': async (probe, stub) => {
    probe.send(request('GET /last', ['Connection: close']));
    await probe.expect([200], 'get');
    const { socket } = stub.find('/last');
    const since = performance.now();
    probe.send(get().repeat(4_000));
    while (!socket.destroyed) await ticks(1);
    // The limit of 64 KiB ends it, not that of the time.
    if (performance.now() - since > lingerMs - 100) throw new Error('it has no limit of bytes');
  },
  'tabs after a Content-Length': async (probe) => {
    probe.send(`${post('Content-Length: 3\t')}one`);
    await probe.expect([200], 'one');
  },
  'late heads': async (probe, stub) => {
    const head = request('GET /late-head', []);
    probe.send(`${head}GET`);
    await probe.expect([200], 'get');
    const { socket } = stub.find('/late-head');
    while (!stub.late.has(socket)) await ticks(1);
  },
  'a malformed body': async (probe) => {
    probe.send(`${post(chunked)}x\r\n`);
    await probe.expect([400], '"status":400}');
    await probe.ends();
  },
  'requests with too large headers': async (probe) => {
    probe.send(get(`X: ${'x'.repeat(50_000)}`));
    await probe.expect([431], '"status":431}');
    await probe.ends();
  },
  'unknown methods': async (probe) => {
    probe.send(request('PURR /', []));
    await probe.expect([501], '"status":501}');
    await probe.ends();
  },
  'an Expect that is not supported': async (probe) => {
    probe.send(get('Expect: miracles'));
    await probe.expect([417], '"status":417}');
    probe.send(get());
    await probe.expect([200], 'get');
  },
  'requests with an Upgrade header': async (probe) => {
    probe.send(get('Connection: Upgrade', 'Upgrade: websocket') + get());
    await probe.expect([200], 'get');
    await probe.ends();
  },
  'CONNECT requests': async (probe) => {
    probe.send(request('CONNECT a:443', []));
    await probe.expect([200], 'get');
    await probe.ends();
  },
  'HTTP/1.0': async (probe) => {
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

/** Runs all checks. An error that Node's server throws in the event loop fails them. */
async function runChecks(): Promise<readonly string[]> {
  const thrown: unknown[] = [];
  const captures = !process.hasUncaughtExceptionCaptureCallback();
  if (captures) process.setUncaughtExceptionCaptureCallback((error) => thrown.push(error));
  try {
    const failures = await failuresOf();
    // An error without this folder and Node's library in its stack is of other code.
    const isOurs = (error: unknown) => /[/\\]http[/\\]|_http_/.test(String(Object(error).stack));
    for (const error of thrown)
      if (isOurs(error)) failures.push(`the server throws: ${reasonOf(error)}`);
      else setImmediate(() => throwAgain(error));
    return failures;
  } finally {
    if (captures) process.setUncaughtExceptionCaptureCallback(null);
  }
}

function throwAgain(error: unknown): never {
  throw error;
}

async function failuresOf(): Promise<string[]> {
  const stub = new Stub();
  const date = new HttpDate(stub);
  const shared: SharedState = { service: stub, unsent: new UnsentBytes(), date, queued: 0 };
  const options = { headersTimeout: 5, connectionsCheckingInterval: 5 };
  const port = await openPort(shared, 'fast', { port: 0 }, options);
  port.server.on('clientError', (_error, socket) => stub.late.add(socket));

  const failures: string[] = [];
  const run = async (name: string, check: Check): Promise<void> => {
    const probe = new Probe(port.listening.port);
    const problem = await problemOf(check(probe, stub));
    probe.destroy();
    if (problem !== undefined) failures.push(`${name}: ${problem}`);
  };
  await Promise.all(Object.entries(checks).map(([name, check]) => run(name, check)));
  await run('releasing finished requests', checkRelease);

  const problem = await problemOf(port.stop(0));
  if (problem !== undefined) failures.push(`closing the port: ${problem}`);
  return failures;
}

/** Waits for a promise. Returns why it is rejected, or that it takes too long. Never rejects. */
async function problemOf(work: Promise<void>): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`nothing happened in ${timeoutMs / 1_000} s`), timeoutMs);
  });
  const done = work.then(
    () => undefined,
    (error: unknown) => reasonOf(error),
  );
  const problem = await Promise.race([done, late]);
  clearTimeout(timer);
  return problem;
}

/** @throws Error if a request does not end, or an object of a finished request is referenced */
async function checkRelease(probe: Probe, stub: Stub): Promise<void> {
  const count = 20;
  const listeners: number[] = [];
  for (let i = 0; i < count; i++) {
    const isGet = i % 2 === 0;
    probe.send(isGet ? get() : `${post('Content-Length: 3')}one`);
    await probe.expect([200], isGet ? 'get' : 'one');
    await ticks(2);
    listeners.push(listenersOf(stub.last.socket));
  }
  if (listeners.at(-1) !== listeners[1]) throw new Error('listeners of the socket add up');

  await ticks(2);
  const isOpen = ({ response, socket }: Exchange) =>
    response !== undefined && !response.writableEnded && !socket.destroyed;
  if (stub.seen.some(isOpen)) throw new Error('a response is open after its end');
  if (stub.inFlight > 0) throw new Error('a request has no end');
  const requests = stub.seen.splice(0).map((each) => new WeakRef(each));
  // A WeakRef holds its target until the end of the tick.
  await ticks(2);
  collectGarbage();
  const left = requests.filter((each) => each.deref() !== undefined).length;
  if (left >= count / 2) throw new Error(`${left} of the last requests are still in memory`);
}

/** @throws Error if this Node cannot do it */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('globalThis.gc');
  setFlagsFromString('--no-expose-gc');
  if (typeof collect !== 'function') throw new Error('there is no way to collect garbage');
  collect();
}

function listenersOf(socket: Socket): number {
  return socket.eventNames().reduce((sum, name) => sum + socket.listenerCount(name), 0);
}
