// Tests `drop` and `truncate` of the faults plugin where another server calls `fetch`: each breaks
// the response as far as it can, and prints no stack trace, as docs/testing.md says.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { folder, root } from '../support/process.js';
import { key, program } from './scene.js';

const packages = join(root, 'test/ecosystem/node_modules');

const petstore = `
import { createPetstore } from ${JSON.stringify(join(root, 'dist/index.js'))};
import { faultsPlugin } from ${JSON.stringify(join(root, 'dist/plugins/faults.js'))};
const { fetch } = createPetstore({ keys: ['${key}'], plugins: [faultsPlugin()] });
`;

/** Prints for each fault what a client sees: its rejection, or the status and how the body ends. */
const client = (origin: string) => `
const headers = { Authorization: 'Bearer ${key}', 'Content-Type': 'application/json' };
const body = '{"name":"Rex","categoryId":5}';
for (const fault of ['drop', 'drop,after', 'truncate', 'truncate,after', 'truncate,end,after']) {
  const init = { method: 'POST', headers: { ...headers, 'Petstore-Fault': fault }, body };
  let seen = '';
  try {
    const response = await globalThis.fetch(${origin} + '/v1/pets', init);
    seen = response.status + ' ';
    for await (const part of response.body) seen += new TextDecoder().decode(part);
    seen += ' whole';
  } catch (error) {
    seen += ' ' + error.name;
  }
  console.log(fault + ': ' + seen.replace(/"id":\\d/, '"id":N'));
}
console.log('done');
`;

const half = '{"id":N,"name":"Re';
const truncated = [
  /^truncate: 503 \{"code":"unavailable","message":"Thi TypeError$/,
  new RegExp(`^truncate,after: 201 ${half} TypeError$`),
  new RegExp(`^truncate,end,after: 201 ${half} TypeError$`),
];
/** A response that breaks off before its body. */
const badGateway = [/^drop: 502 {2}TypeError$/, /^drop,after: 502 {2}TypeError$/];
/** A connection without a response. */
const rejected = [/^drop: {2}TypeError$/, /^drop,after: {2}TypeError$/];

const honoServer = (app: string) => `
import { Hono } from 'hono';
import { serve } from '@hono/node-server';
const app = new Hono();
${app};
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => console.log('port ' + port));
`;

const hosts: Readonly<
  Record<
    string,
    {
      readonly command: readonly string[];
      readonly code: string;
      readonly dropped: readonly RegExp[];
    }
  >
> = {
  'Bun.serve': {
    command: [join(packages, '.bin/bun'), 'run'],
    code: `console.log('port ' + Bun.serve({ port: 0, hostname: '127.0.0.1', fetch }).port);`,
    dropped: rejected,
  },
  'Deno.serve': {
    command: [join(packages, '.bin/deno'), 'run', '--allow-all'],
    code: `console.log('port ' + Deno.serve({ port: 0, hostname: '127.0.0.1', onListen() {} }, fetch).addr.port);`,
    dropped: badGateway,
  },
  'Hono with mount': {
    command: [process.execPath],
    code: honoServer(`app.mount('/', fetch)`),
    dropped: badGateway,
  },
  'Hono with a handler': {
    command: [process.execPath],
    code: honoServer(`app.all('*', (c) => fetch(c.req.raw))`),
    dropped: badGateway,
  },
};

for (const [name, { command, code, dropped }] of Object.entries(hosts))
  test(`${name} breaks a cut response, and prints no stack trace`, async (t) => {
    const cwd = folder(t);
    for (const each of ['hono', '@hono/node-server']) {
      mkdirSync(dirname(join(cwd, 'node_modules', each)), { recursive: true });
      symlinkSync(join(packages, each), join(cwd, 'node_modules', each));
    }
    writeFileSync(join(cwd, 'serve.mjs'), petstore + code);
    const [first = '', ...args] = command;
    const server = program(t, cwd, first, ...args, 'serve.mjs');
    const port = await server.findLine((line) => /^port (\d+)$/.exec(line)?.[1]);
    assert.ok(port !== undefined, server.output);

    writeFileSync(join(cwd, 'client.mjs'), client(`'http://127.0.0.1:${port}'`));
    const { stdout } = await program(t, cwd, process.execPath, 'client.mjs').ended;
    assertSeen(stdout, dropped);
    assert.doesNotMatch(server.output, /^\s+at /m);
    // Each cut is logged.
    assert.match(server.output, /the connection was cut: drop/);
  });

test('msw breaks a cut response, and prints no stack trace', async (t) => {
  const cwd = folder(t);
  mkdirSync(join(cwd, 'node_modules'));
  symlinkSync(join(packages, 'msw'), join(cwd, 'node_modules/msw'));
  const code = `
import { http } from 'msw';
import { setupServer } from 'msw/node';
setupServer(http.all('http://any/*', ({ request }) => fetch(request))).listen();
`;
  writeFileSync(join(cwd, 'all.mjs'), petstore + code + client(`'http://any'`));
  const { stdout, stderr } = await program(t, cwd, process.execPath, 'all.mjs').ended;
  assertSeen(stdout, rejected);
  assert.doesNotMatch(stderr, /^\s+at /m);
});

/** Asserts what a client has printed. */
function assertSeen(stdout: string, dropped: readonly RegExp[]): void {
  const lines = stdout.trim().split('\n');
  const expected = [...dropped, ...truncated, /^done$/];
  assert.equal(lines.length, expected.length, stdout);
  for (const [index, pattern] of expected.entries()) assert.match(lines[index] ?? '', pattern);
}
