/**
 * Checks that this Node has the undocumented behaviour that `http/node.ts` lists (C80): serves a
 * stub on a loopback port, sends it requests of each kind, and sees that nothing of them is left.
 */
import type { Socket } from 'node:net';
import { clearTimeout, setImmediate, setTimeout } from 'node:timers';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { reasonOf } from '../errors.js';
import type { SharedState } from './connection.js';
import type { Exchange } from './exchange.js';
import { get, nodeChecks, post, type NodeCheck } from './node-checks.js';
import { openPort } from './port.js';
import { Probe, ticks } from './probe.js';
import { StubService } from './stub-service.js';
import { HttpDate, UnsentBytes } from './wire.js';

/** The time in which each check must pass. All together take some 0.1 s on a slow machine. */
const timeoutMs = 5_000;

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
  const options = { headersTimeout: 5, connectionsCheckingInterval: 5 };
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
async function checkRelease(probe: Probe, stub: StubService): Promise<void> {
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

  stub.late.clear();
  // The requests of this check are on one connection, which is still open.
  const [own, others] = [stub.seen.splice(-count).map(refsOf), stub.seen.splice(0).map(refsOf)];
  // A WeakRef holds its target until the end of the tick.
  await ticks(2);
  collectGarbage();
  for (const finished of [own, others])
    for (const kind of ['requests', 'responses', 'closed connections'] as const) {
      const refs = finished.flatMap((each) => each[kind] ?? []);
      const left = refs.filter((each) => each.deref() !== undefined).length;
      if (left > refs.length / 3)
        throw new Error(`${left} of ${refs.length} ${kind} are in memory`);
    }
}

/** The objects of a request whose memory must be free after its end. */
type Refs = Readonly<
  Partial<Record<'requests' | 'responses' | 'closed connections', WeakRef<object>>>
>;

function refsOf(exchange: Exchange): Refs {
  const { response, socket } = exchange;
  return {
    requests: new WeakRef(exchange),
    ...(response !== undefined && { responses: new WeakRef(response) }),
    ...(socket.destroyed && { 'closed connections': new WeakRef(socket) }),
  };
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
