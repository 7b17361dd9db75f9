// --dev: a key of this machine, and one line to paste.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { command } from '../support/command.js';
import {
  assertRefused,
  folder,
  freePort,
  runServer,
  StartedProcess,
  StartedServer,
  serverFile,
  startServer,
} from '../support/process.js';
import { until } from '../support/waiting.js';

const unkeyed = { PETSTORE_API_KEYS: '' };

function banner(server: StartedProcess): Promise<string> {
  return until('the curl line', () =>
    server.stdout
      .split('\n')
      .slice(0, -1)
      .find((line) => line.startsWith('curl ')),
  );
}

describe('--dev', { concurrency: 4 }, () => {
  test('prints one line that a shell runs to add an animal and list it', async (t) => {
    const cwd = folder(t);
    const server = await startServer(t, ['--dev'], { cwd, env: unkeyed });
    const { code, stdout, stderr } = await new StartedProcess('sh', ['-c', await banner(server)], {
      cwd,
    }).ended;
    assert.equal(code, 0, stderr);
    const animal = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';
    assert.equal(stdout, `${animal}\n[${animal}]\n`);
    await server.end();
    // The log's, the docs' and this one, then a line of the log for each of the two requests, and
    // one for the end.
    const [, docs, , ...log] = server.lines;
    assert.match(docs ?? '', /^Page: http\S+\/ {2}Docs: http\S+\/docs$/);
    assert.deepEqual(
      log.map((line) => JSON.parse(line)).map(({ msg, method, status }) => [msg, method, status]),
      [
        ['request', 'POST', 201],
        ['request', 'GET', 200],
        ['stopping', undefined, undefined],
      ],
    );
  });

  test('C40: the key is in data/dev-key (mode 600, folder 700), is used again, and is in no line of the log', async (t) => {
    const cwd = folder(t);
    const first = await startServer(t, ['--dev'], { cwd, env: unkeyed });
    const key = readFileSync(join(cwd, 'data/dev-key'), 'latin1').trim();
    assert.match(key, /^psk_[A-Za-z0-9_-]{43}$/);
    assert.equal(statSync(join(cwd, 'data/dev-key')).mode & 0o777, 0o600);
    assert.equal(statSync(join(cwd, 'data')).mode & 0o777, 0o700);
    assert.ok((await banner(first)).includes(`Bearer ${key}'`));
    assert.equal((await first.get('/v1/pets', key)).status, 200);
    await first.end();
    assert.ok(!JSON.stringify(first.log).includes(key));
    assert.equal(first.log.find(({ msg }) => msg === 'request')?.['key'], 'dev');
    const second = await startServer(t, ['--dev'], { cwd, env: unkeyed });
    assert.equal((await second.get('/v1/pets', key)).status, 200);
  });

  test('works beside other keys, and its line comes under --log silent too', async (t) => {
    const cwd = folder(t);
    const port = await freePort();
    const server = new StartedServer(
      process.execPath,
      [serverFile, '--dev', '--log', 'silent', '--port', port],
      {
        cwd,
        env: { PETSTORE_API_KEYS: 'other' },
      },
    );
    atEnd(t, () => server.end('SIGKILL'));
    const line = await banner(server);
    assert.equal(
      server.stdout,
      `Page: http://127.0.0.1:${port}/  Docs: http://127.0.0.1:${port}/docs\n${line}\n`,
    );
    const answer = await fetch(`http://127.0.0.1:${port}/v1/pets`, {
      headers: { Authorization: 'Bearer other' },
    });
    assert.equal(answer.status, 200);
  });

  test('on all addresses the line names one that can be reached', async (t) => {
    const server = await startServer(t, ['--dev', '--host', '0.0.0.0', '--storage', 'memory:'], {
      cwd: folder(t),
      env: unkeyed,
    });
    assert.match(await banner(server), /http:\/\/127\.0\.0\.1:\d+\/v1\/pets'$/);
    const six = await startServer(t, ['--dev', '--host', '::', '--storage', 'memory:'], {
      cwd: folder(t),
      env: unkeyed,
    });
    assert.equal(
      (await new StartedProcess('sh', ['-c', await banner(six)], { cwd: folder(t) }).ended).code,
      0,
    );
    await six.end();
    await server.end();
  });

  test('--log info logs no requests', async (t) => {
    const cwd = folder(t);
    const server = await startServer(t, ['--dev', '--log', 'info'], { cwd, env: unkeyed });
    await server.get('/healthz');
    await server.end();
    assert.ok(!server.log.some(({ msg }) => msg === 'request'));
  });

  test('a port in use is refused with what to type, and no folder is made', async (t) => {
    const cwd = folder(t);
    const taken = createServer().listen(0, '127.0.0.1');
    atEnd(t, () => taken.close());
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = Object(taken.address());
    const other = port < 60_000 ? port + 100 : port - 100;
    assertRefused(
      await runServer(['--dev'], { cwd, env: { PORT: String(port) } }),
      2,
      new RegExp(
        `^port ${port} of 127\\.0\\.0\\.1 is in use; .*\`PORT=${other} make run\` or --port ${other}\\n$`,
      ),
    );
    assert.deepEqual(readdirSync(cwd), []);
  });

  test('no key is made for a storage that is refused', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'pets.jsonl'), 'a shopping list\n');
    const ended = await command(['--dev', '--port', '0', '--storage', 'file:pets.jsonl'], { cwd });
    assertRefused(ended, 3, /pets\.jsonl line 1/);
    assert.deepEqual(readdirSync(cwd), ['pets.jsonl']);
  });

  test('a dev-key that is no key is refused with exit 2', async (t) => {
    const cwd = folder(t);
    mkdirSync(join(cwd, 'data'));
    writeFileSync(join(cwd, 'data/dev-key'), 'secret-but-no-key\n');
    const ended = await command(['--dev', '--port', '0'], { cwd });
    assertRefused(ended, 2, /data\/dev-key holds no key; delete it/);
    assert.ok(!ended.stderr.includes('secret'));
    assert.deepEqual(readdirSync(join(cwd, 'data')), ['dev-key']);
  });

  test('a place where no key can be made is refused with exit 2', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'data'), '');
    assertRefused(
      await command(['--dev', '--port', '0', '--storage', 'memory:'], { cwd }),
      2,
      /data\/dev-key/,
    );
  });
});
