/**
 * Checks that this Node has the undocumented behaviour that `http/node.ts` lists (C80): serves a
 * stub on a loopback port, sends it requests of each kind, and sees that nothing of them is left.
 */
import type { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import { clearInterval, setImmediate, setInterval } from 'node:timers';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { reasonOf } from '../errors.js';
import type { SharedState } from './connection.js';
import type { Exchange } from './exchange.js';
import { commonRequests, nodeChecks, type NodeCheck } from './node-checks.js';
import { openPort } from './port.js';
import { Probe, ticks } from './probe.js';
import { StubService } from './stub-service.js';
import { HttpDate, UnsentBytes } from './wire.js';

/**
 * The time in which each check must pass. It passes in slices, so that a process that was suspended
 * loses only one of them.
 */
const timeout = { slices: 50, sliceMs: 100 };

let result: Promise<readonly string[]> | undefined;

/** Checks this Node, once per process. Resolves to what failed, one sentence each. */
export function selfCheck(): Promise<readonly string[]> {
  return (result ??= runChecks());
}

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
  const stub = new StubService();
  const date = new HttpDate(stub);
  const shared: SharedState = { service: stub, unsent: new UnsentBytes(), date, queued: 0 };
  const options = { headersTimeout: 1, connectionsCheckingInterval: 1 };
  const port = await openPort(shared, 'fast', { port: 0 }, options);
  port.server.on('clientError', (_error, socket) => stub.late.add(socket));

  const failures: string[] = [];
  const run = async (name: string, check: NodeCheck): Promise<void> => {
    const probes: Probe[] = [];
    const open = (): Probe => {
      const probe = new Probe(port.listening.port);
      probes.push(probe);
      return probe;
    };
    const problem = await problemOf(check(open(), stub, open));
    for (const probe of probes) probe.destroy();
    if (problem !== undefined) failures.push(`${name}: ${problem}`);
  };
  await Promise.all(Object.entries(nodeChecks).map(([name, check]) => run(name, check)));
  await run('releasing finished requests', (probe) => checkRelease(probe, stub, port.server));

  const problem = await problemOf(port.stop(0));
  if (problem !== undefined) failures.push(`closing the port: ${problem}`);
  return failures;
}

/** Waits for a promise. Returns why it is rejected, or that it takes too long. Never rejects. */
async function problemOf(work: Promise<void>): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    let left = timeout.slices;
    timer = setInterval(() => {
      if (--left === 0) resolve('nothing happened in 5 s');
    }, timeout.sliceMs);
  });
  const done = work.then(
    () => undefined,
    (error: unknown) => reasonOf(error),
  );
  const problem = await Promise.race([done, late]);
  clearInterval(timer);
  return problem;
}

/** The number of rounds of the common requests. */
const rounds = 8;

/**
 * Sends each kind of the common requests several times.
 * @throws Error if a request does not end, or an object of a finished request is referenced
 */
async function checkRelease(probe: Probe, stub: StubService, server: Server): Promise<void> {
  const kinds = Object.entries(commonRequests);
  const listeners: number[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const [, [bytes, statuses]] of kinds) {
      probe.send(bytes);
      await probe.expect(statuses, 'get');
      await ticks(2);
    }
    listeners.push(listenersOf(stub.last.socket) + listenersOf(server));
  }
  if (listeners.at(-1) !== listeners[0]) throw new Error('listeners add up');

  await ticks(2);
  if (stub.seen.some(isOpen)) throw new Error('a response is open after its end');
  if (stub.seen.some(({ response }) => response !== undefined && response.writableLength > 0))
    throw new Error('a response has data of Node');
  if (stub.inFlight > 0) throw new Error('a request has no end');

  stub.late.clear();
  const finished = stub.seen.splice(0).map((each) => refsOf(each));
  const refs = byKind(finished, Object.keys(commonRequests));
  let left = '';
  // The first collection may end one that began earlier, which keeps all objects made since then.
  for (let attempts = 2; attempts > 0; attempts--) {
    // A WeakRef holds its target until the end of the tick.
    await ticks(2);
    collectGarbage();
    left = leftOf(refs);
    if (left === '') return;
  }
  throw new Error(left);
}

/** Returns which objects are in memory; empty if they are too few to add up. */
function leftOf(refs: ReadonlyMap<string, readonly WeakRef<object>[]>): string {
  for (const [name, all] of refs) {
    const left = all.filter((each) => each.deref() !== undefined).length;
    if (left >= all.length / 3) return `${left} of ${all.length} ${name} are in memory`;
  }
  return '';
}

function isOpen({ response, socket }: Exchange): boolean {
  return response !== undefined && !response.writableEnded && !socket.destroyed;
}

/** The objects of a request whose memory must be free after its end. */
interface Refs {
  readonly request: WeakRef<object>;
  readonly response: WeakRef<object> | undefined;
  readonly headers: WeakRef<object>;
  readonly closedConnection: WeakRef<object> | undefined;
}

function refsOf(exchange: Exchange): Refs {
  const { response, rawHeaders, socket } = exchange;
  return {
    request: new WeakRef(exchange),
    response: response && new WeakRef(response),
    headers: new WeakRef(rawHeaders),
    closedConnection: socket.destroyed ? new WeakRef(socket) : undefined,
  };
}

/**
 * Returns the references by what they refer to. It has no access to the objects, because a closure
 * that is being compiled would keep them.
 * @param kinds The kinds of the last requests, which repeat.
 */
function byKind(
  all: readonly Refs[],
  kinds: readonly string[],
): ReadonlyMap<string, readonly WeakRef<object>[]> {
  const isPresent = (ref: WeakRef<object> | undefined) => ref !== undefined;
  const last = all.slice(-rounds * kinds.length);
  return new Map([
    ['requests', all.map(({ request }) => request)],
    ['responses', all.map(({ response }) => response).filter(isPresent)],
    ['lists of headers', all.map(({ headers }) => headers)],
    ['closed connections', all.map((each) => each.closedConnection).filter(isPresent)],
    // The connection of the last requests is still open.
    ['responses of an open connection', last.map(({ response }) => response).filter(isPresent)],
    ...kinds.map((kind, at): [string, WeakRef<object>[]] => [
      `${kind} requests`,
      last.filter((_, i) => i % kinds.length === at).map(({ request }) => request),
    ]),
  ]);
}

/** @throws Error if this Node cannot do it */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('globalThis.gc');
  setFlagsFromString('--no-expose-gc');
  if (typeof collect !== 'function') throw new Error('there is no way to collect garbage');
  collect();
}

function listenersOf(emitter: EventEmitter): number {
  return emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0);
}
