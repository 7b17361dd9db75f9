// The log: JSON lines on standard output, its levels, and what can never be in it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { atEnd } from '../at-end.js';
import { apiKey, folder, freePort, Running, RunningServer, serverFile, start, until } from './process.js';

describe('the log', { concurrency: 4 }, () => {
  test('the first line is level, msg, url, storage, pets, readyMs, and time at the end', async (t) => {
    const server = await start(t, ['--storage', 'memory:'], { cwd: folder(t) });
    const [line = ''] = server.stdout.split('\n');
    assert.match(
      line,
      /^\{"level":"info","msg":"listening","url":"http:\/\/127\.0\.0\.1:\d+","storage":"memory:","pets":0,"readyMs":\d+,"time":"[0-9T:.-]+Z"\}$/,
    );
    assert.equal(server.stderr, '');
  });

  test('info says nothing of requests', async (t) => {
    const server = await start(t, ['--storage', 'memory:'], { cwd: folder(t) });
    await server.add('Rex');
    const { stdout } = await server.end();
    assert.deepEqual(messages(stdout), ['listening', 'stopping']);
  });

  test('requests says one line a request: method, route, status, ms, the name of the key', async (t) => {
    const server = await start(t, ['--storage', 'memory:', '--log', 'requests'], { cwd: folder(t) });
    await server.add('Rex');
    await server.get('/v1/pets/1?secret=1');
    await server.get('/v1/pets', 'wrong-key');
    await server.get('/nowhere/else');
    const { stdout } = await server.end();
    const requests = lines(stdout).filter(({ msg }) => msg === 'request');
    assert.deepEqual(
      requests.map(({ method, route, status, key }) => [method, route, status, key]),
      [
        ['POST', '/v1/pets', 201, 'env-1'],
        ['GET', '/v1/pets/{petId}', 200, 'env-1'],
        ['GET', '/v1/pets', 401, undefined],
        ['GET', undefined, 404, undefined],
      ],
    );
    for (const { ms } of requests) assert.match(String(ms), /^\d+(\.\d{1,3})?$/);
  });

  test('C40: no key, path or query of a client reaches the log', async (t) => {
    const server = await start(t, ['--storage', 'memory:', '--log', 'requests'], { cwd: folder(t) });
    await server.get(`/v1/pets?key=${apiKey}`);
    await server.get(`/${apiKey}`, `${apiKey}-almost`);
    assert.ok(!(await server.end()).stdout.includes(apiKey));
  });

  test('silent prints nothing at all', async (t) => {
    const cwd = folder(t);
    const port = await freePort();
    const env = { PETSTORE_API_KEYS: apiKey, PETSTORE_STORAGE: 'memory:', PORT: port, PETSTORE_LOG: 'silent' };
    const server = new Running(process.execPath, [serverFile], { cwd, env });
    await until('an answer', async () => (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined))?.ok);
    const ended = await server.end();
    assert.equal(ended.code, 0);
    assert.equal(ended.stdout + ended.stderr, '');
  });

  test('control characters and U+2028 from a plugin or an option cannot forge a line', async (t) => {
    const cwd = folder(t);
    const forged = `x\n{"level":"info","msg":"forged"}\r\u2028\u2029\u0085\u001b[2J\u202e`;
    writeFileSync(
      join(cwd, 'plugin.mjs'),
      `export default (host) => host.log('info', ${JSON.stringify(forged)}, { msg: 'other', time: 1, id: 1n, text: ${JSON.stringify(forged)} });`,
    );
    const server = await start(t, ['--storage', 'memory:', '--plugin', './plugin.mjs'], { cwd });
    const { stdout } = await server.end();
    assert.doesNotMatch(stdout, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202e]/);
    const [first] = lines(stdout);
    assert.equal(first?.['msg'], forged);
    assert.equal(first?.['text'], forged);
    assert.equal(first?.['id'], '1');
    assert.match(String(first?.['time']), /^\d{4}-.*Z$/);
    assert.ok(!messages(stdout).includes('forged'));
  });

  test('whoever reads the output may go away: the server goes on', async (t) => {
    const cwd = folder(t);
    const server = new RunningServer(process.execPath, [serverFile], {
      cwd,
      env: { PETSTORE_API_KEYS: apiKey, PETSTORE_STORAGE: 'memory:', PORT: '0', PETSTORE_LOG: 'requests' },
    });
    atEnd(t, () => server.end('SIGKILL'));
    await server.said('listening');
    server.child.stdout?.destroy();
    server.child.stderr?.destroy();
    for (let count = 0; count < 5; count++) assert.equal((await server.get('/v1/pets')).status, 200);
    assert.equal((await server.end()).code, 0);
  });

  test('a reader that is gone before the first line does no harm to a command', async (t) => {
    const shell = spawn('sh', ['-c', '"$0" "$1" --help | true; exit 0', process.execPath, serverFile], { cwd: folder(t) });
    let stderr = '';
    shell.stderr.on('data', (text) => (stderr += text));
    await new Promise((resolve) => shell.once('close', resolve));
    assert.equal(stderr, '');
  });
});

function lines(stdout: string): readonly Record<string, unknown>[] {
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function messages(stdout: string): readonly unknown[] {
  return lines(stdout).map(({ msg }) => msg);
}
