/**
 * Runs the contract on `createServer(petstore.handler)` in a process in which the petstore finds
 * none of the undocumented members of Node's requests and responses (C79).
 */
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { compileFunction } from 'node:vm';
import { createPetstore } from '../../dist/index.js';
import { verifyPetstore } from '../../dist/conformance/index.js';
import { atEnd } from '../support/at-end.js';
import { key } from '../support/fixture.js';
import { serve } from '../support/scenes.js';

/** Names that the documentation of Node has for requests, responses, streams and sockets. */
const documented = new Set(
  `addListener emit eventNames getMaxListeners listenerCount listeners off on once
  prependListener prependOnceListener rawListeners removeAllListeners removeListener
  setMaxListeners closed cork destroy destroyed end errored writable writableAborted
  writableCorked writableEnded writableFinished writableHighWaterMark writableLength
  writableNeedDrain writableObjectMode setDefaultEncoding uncork write isPaused pause pipe read
  readable readableAborted readableDidRead readableEncoding readableEnded readableFlowing
  readableHighWaterMark readableLength readableObjectMode resume setEncoding unpipe unshift
  complete connection headers headersDistinct httpVersion method rawHeaders rawTrailers
  setTimeout socket statusCode statusMessage trailers trailersDistinct url addTrailers
  appendHeader flushHeaders getHeader getHeaderNames getHeaders hasHeader headersSent
  removeHeader req sendDate setHeader setHeaders strictContentLength writeContinue
  writeEarlyHints writeHead writeProcessing address bytesRead bytesWritten localAddress
  localPort remoteAddress remoteFamily remotePort destroySoon resetAndDestroy setKeepAlive
  setNoDelay constructor`.split(/\s+/),
);
/** Members that hosts add, which the petstore looks for. */
const ofHosts = new Set(['baseUrl', 'originalUrl', 'originalMethod', 'rawBody', 'body']);
const documentedSymbols: ReadonlySet<unknown> = new Set([Symbol.asyncIterator]);

/** The undocumented members that the petstore used. */
const used = new Set<string>();

/** True if the caller of a trap is a module of the petstore, not Node's own library. */
function isPetstoreCalling(): boolean {
  // After the lines of the message, of this function, of `isHidden` and of the trap.
  const caller = new Error().stack?.split('\n')[4] ?? '';
  return caller.includes('/dist/');
}

/** Hides the undocumented members of an object from the petstore; Node itself still sees them. */
function hide<Target extends object>(target: Target): Target {
  const isHidden = (name: string | symbol): boolean => {
    const isKnown =
      typeof name === 'symbol'
        ? documentedSymbols.has(name)
        : documented.has(name) || ofHosts.has(name);
    if (isKnown || !isPetstoreCalling()) return false;
    used.add(String(name));
    return true;
  };
  return new Proxy(target, {
    get(object, name, receiver) {
      if (isHidden(name)) return undefined;
      const value: unknown = Reflect.get(object, name, receiver);
      return value instanceof Socket ? hide(value) : value;
    },
    has: (object, name) => !isHidden(name) && Reflect.has(object, name),
    set: (object, name, value) => isHidden(name) || Reflect.set(object, name, value),
  });
}

/** The rules that a host keeps itself, such as those of timeouts and malformed requests. */
const rulesOfHost = ['P3', 'C15', 'C18', 'C33', 'C42', 'C43', 'C45', 'C47', 'C52', 'C64'];

test('C79 handler uses no undocumented member of Node’s requests and responses', async (t) => {
  const petstore = createPetstore({ keys: [key] });
  atEnd(t, () => petstore.close());
  const port = await serve(t, (request, response) =>
    petstore.handler(hide(request), hide(response)),
  );
  const failed: string[] = [];
  for await (const { number, outcome } of verifyPetstore({ url: `http://127.0.0.1:${port}`, key }))
    if (outcome === 'failed' && !rulesOfHost.includes(number)) failed.push(number);
  assert.deepEqual({ failed, used: [...used] }, { failed: [], used: [] });
});

test('finds an undocumented member that the petstore uses', () => {
  const filename = '/dist/http/wrong.js';
  const read = compileFunction('return response._header', ['response'], { filename });
  const response = hide(new ServerResponse(new IncomingMessage(new Socket())));
  assert.equal(read(response), undefined);
  assert.deepEqual([...used], ['_header']);
});
