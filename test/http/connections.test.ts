/** Tests of the limit of connections (C54). */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { start } from '../support/fixture.js';
import { expectResponse } from '../support/scenes.js';

test('C54 accepts up to 64 fewer connections than the limit of open files, and serves them', () => {
  const script = `
    import { createPetstore } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
    import { connect } from 'node:net';
    import { readFileSync } from 'node:fs';
    const petstore = createPetstore({ keys: ['k'] });
    const { port } = await petstore.listen({ port: 0 });
    // Each connection takes two descriptors, because both of its ends are in this process.
    const sockets = [];
    let served = 0, dropped = 0;
    for (let i = 0; i < 60; i++) {
      const socket = connect(port, '127.0.0.1');
      sockets.push(socket);
      socket.on('error', () => {}).on('data', () => served++).on('close', () => dropped++);
      socket.write('GET /healthz HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n');
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    console.log(JSON.stringify({ limit: Number(/^Max open files +(\\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))[1]), served, dropped }));
    process.exit();`;
  const { stdout, stderr } = spawnSync(
    'prlimit',
    ['--nofile=104:104', process.execPath, '--input-type=module', '--eval', script],
    { encoding: 'utf8' },
  );
  assert.equal(stderr, '');
  assert.deepEqual(JSON.parse(stdout), { limit: 104, served: 40, dropped: 20 });
});

test('C54 accepts at most 10,000 connections, whatever the limit of open files is', async (t) => {
  let maxConnections: unknown;
  const observe = (message: unknown) => ({ maxConnections } = Object(message).server);
  subscribe('http.server.request.start', observe);
  atEnd(t, () => unsubscribe('http.server.request.start', observe));
  await expectResponse((await start(t)).port, 'GET /healthz', 200);
  const [, limit = Infinity] =
    /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  assert.equal(maxConnections, Math.min(10_000, Number(limit) - 64));
});
