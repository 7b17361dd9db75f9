/** Tests `drop` and `truncate` of the faults plugin through `fetch`, alone and behind servers. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { test } from 'node:test';
import { createPetstore } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import '../support/built.js';
import { atEnd, type Ending } from '../support/at-end.js';

const pet = '{"name":"Rex","categoryId":5}';
const stored = '{"id":1,"name":"Rex","categoryId":5}';

/** Returns the request of a pet with a fault. */
function faulty(fault: string, method = 'POST'): Request {
  const headers = { Authorization: 'Bearer a', 'Content-Type': 'application/json' };
  return new Request('http://any/v1/pets', {
    method,
    headers: { ...headers, 'Petstore-Fault': fault },
    ...(method === 'POST' && { body: pet }),
  });
}

function petstoreOf(t: Ending) {
  const petstore = createPetstore({ keys: ['a'], plugins: [faultsPlugin()] });
  atEnd(t, petstore.close);
  return petstore;
}

/** Reads a body to its end or its error; returns its beginning and the error. */
async function readBody({ body }: Response): Promise<readonly [text: string, error: unknown]> {
  let text = '';
  try {
    const decoder = new TextDecoder();
    for await (const part of body ?? []) text += decoder.decode(part);
    return [text, undefined];
  } catch (error) {
    return [text, error];
  }
}

/** Asserts that an error looks like that of the platform's `fetch`, and prints no stack trace. */
function assertCut(error: unknown, message: string, cut: string): void {
  assert.ok(error instanceof TypeError);
  const { cause, code, errno } = Object(error);
  assert.deepEqual([error.message, code], [message, 'ECONNRESET']);
  assert.ok(errno < 0);
  assert.equal(cause.code, 'ECONNRESET');
  assert.equal(
    inspect(error),
    `[TypeError: ${message}] {\n  [cause]: [Error: the connection was cut: ${cut}]\n}`,
  );
}

/** Second arguments of `fetch`, as each server passes them. */
const serverArguments = [
  { remoteAddr: { hostname: '127.0.0.1', port: 1 }, completed: Promise.resolve() },
  { port: 1, requestIP: () => null, url: new URL('http://127.0.0.1:1/') },
  { incoming: {}, outgoing: {} },
];

test('C62 `fetch` rejects for a dropped connection, and stores the pet only with `after`', async (t) => {
  const { fetch, storage } = petstoreOf(t);
  for (const [fault, count] of [
    ['drop', 0],
    ['drop,after', 1],
  ] as const) {
    const error = await fetch(faulty(fault)).catch((error: unknown) => error);
    assertCut(error, 'fetch failed', 'drop');
    assert.equal((await storage.list({ limit: 9 })).length, count);
  }
});

test('C62 `fetch` resolves to a truncated response, whose body errors after its half', async (t) => {
  const { fetch } = petstoreOf(t);
  for (const request of [fetch, (each: Request) => fetch(each, serverArguments[0] ?? {})]) {
    const response = await request(faulty('truncate,after'));
    assert.equal(response.status, 201);
    assert.equal(response.headers.get('Content-Type'), 'application/json');
    assert.equal(response.headers.get('Content-Length'), String(stored.length));
    const [text, error] = await readBody(response);
    assert.equal(text.length, stored.length / 2);
    assertCut(error, 'terminated', 'truncate');
  }
  const before = await fetch(faulty('truncate'));
  assert.equal(before.status, 503);
  await assert.rejects(before.json(), { name: 'TypeError', message: 'terminated' });
  const head = await fetch(faulty('truncate', 'HEAD'));
  assert.deepEqual([head.status, await head.text()], [503, '']);
});

test('C62 behind a server, a dropped response is a 502 whose body errors at once', async (t) => {
  const { fetch } = petstoreOf(t);
  for (const server of serverArguments) {
    const response = await fetch(faulty('drop,after'), server);
    assert.equal(response.status, 502);
    const [text, error] = await readBody(response);
    assert.equal(text, '');
    assertCut(error, 'terminated', 'drop');
  }
  // Hono responds with the result of `getResponse` of an error.
  const error = await fetch(faulty('drop')).catch((error: unknown) => error);
  assert.equal(Object(error).getResponse().status, 502);
});

test('C62 the reader of a truncated response may stop before the body errors', async (t) => {
  const { fetch } = petstoreOf(t);
  const response = await fetch(faulty('truncate,after'));
  const reader = response.body?.getReader();
  assert.ok((await reader?.read())?.value !== undefined);
  await reader?.cancel();
  const unread = await fetch(faulty('truncate,after'));
  assert.equal(unread.bodyUsed, false);
});

test('C61 C62 C84 a fault looks alike over a connection and through `fetch`', async (t) => {
  const petstore = petstoreOf(t);
  const { url } = await petstore.listen({ port: 0 });
  /** Returns what a client sees: status, headers and body, or how they break. */
  const see = async (send: typeof fetch, origin: string, fault: string): Promise<string> => {
    await petstore.storage.reset?.();
    const { method, headers } = faulty(fault);
    try {
      const response = await send(`${origin}/v1/pets`, { method, headers, body: pet });
      const names = ['Content-Type', 'WWW-Authenticate', 'Location', 'Retry-After'];
      const values = names.map((name) => response.headers.get(name));
      const [text, error] = await readBody(response);
      return `${response.status} ${values} ${text} ${error}`.replace(/\d\d:\d\d:\d\d GMT/, 'TIME');
    } catch (error) {
      return String(error);
    }
  };

  const statuses = [401, 403, 404, 408, 409, 429, 500, 502, 503, 504].map(
    (each) => `status=${each}`,
  );
  const pages = ['html', 'status=502,html', 'status=503,after', 'dribble=50', 'delay=50,within'];
  const waits = ['30', 'none', 'date'].map((each) => `status=503,retry-after=${each}`);
  const cuts = ['drop', 'drop,after', 'truncate', 'truncate,after', 'truncate,end,after'];
  const changes = ['extra', 'newstatus', 'extra,newstatus', 'delay=50', 'nonsense'];
  for (const fault of [...statuses, ...pages, ...waits, ...cuts, ...changes]) {
    const connected = await see(fetch, url, fault);
    assert.equal(await see(petstore.fetch, 'http://any', fault), connected, fault);
  }
});
