// --dev: a key of this machine, and one line to paste.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { takenPort, assertRefused, folder, freePort, StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';
import { WorkingFolder } from '../support/working-folder.js';

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
    const here = new WorkingFolder(t);
    const server = await here.start('--dev', unkeyed);
    const { code, stdout, stderr } = await new StartedProcess('sh', ['-c', await banner(server)], {
      cwd: here.path,
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
    const here = new WorkingFolder(t);
    const first = await here.start('--dev', unkeyed);
    const key = readFileSync(here.at('data/dev-key'), 'latin1').trim();
    assert.match(key, /^psk_[A-Za-z0-9_-]{43}$/);
    assert.equal(statSync(here.at('data/dev-key')).mode & 0o777, 0o600);
    assert.equal(statSync(here.at('data')).mode & 0o777, 0o700);
    assert.ok((await banner(first)).includes(`Bearer ${key}'`));
    assert.equal((await first.get('/v1/pets', key)).status, 200);
    await first.end();
    assert.ok(!JSON.stringify(first.log).includes(key));
    assert.equal(first.log.find(({ msg }) => msg === 'request')?.['key'], 'dev');
    const second = await here.start('--dev', unkeyed);
    assert.equal((await second.get('/v1/pets', key)).status, 200);
  });

  test('works beside other keys, and its line comes under --log silent too', async (t) => {
    const here = new WorkingFolder(t);
    const port = await freePort();
    const server = here.begin(['--dev', '--log', 'silent', '--port', port], {
      PETSTORE_API_KEYS: 'other',
    });
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
    const server = await new WorkingFolder(t).start(
      '--dev --host 0.0.0.0 --storage memory:',
      unkeyed,
    );
    assert.match(await banner(server), /http:\/\/127\.0\.0\.1:\d+\/v1\/pets'$/);
    const six = await new WorkingFolder(t).start('--dev --host :: --storage memory:', unkeyed);
    assert.equal(
      (await new StartedProcess('sh', ['-c', await banner(six)], { cwd: folder(t) }).ended).code,
      0,
    );
    await six.end();
    await server.end();
  });

  test('--log info logs no requests', async (t) => {
    const here = new WorkingFolder(t);
    const server = await here.start('--dev --log info', unkeyed);
    await server.get('/healthz');
    await server.end();
    assert.ok(!server.log.some(({ msg }) => msg === 'request'));
  });

  test('a port in use is refused with what to type, and no folder is made', async (t) => {
    const here = new WorkingFolder(t);
    const port = await takenPort(t);
    const other = port < 60_000 ? port + 100 : port - 100;
    const told = new RegExp(
      `^port ${port} of 127\\.0\\.0\\.1 is in use; .*\`PORT=${other} make run\` or --port ${other}\\n$`,
    );
    await here.refuses('--dev', 2, told, { PORT: `${port}` });
    assert.deepEqual(here.names(), []);
  });

  test('no key is made for a storage that is refused', async (t) => {
    const here = new WorkingFolder(t, { 'pets.jsonl': 'a shopping list\n' });
    const ended = await here.command('--dev --port 0 --storage file:pets.jsonl');
    assertRefused(ended, 3, /pets\.jsonl line 1/);
    assert.deepEqual(here.names(), ['pets.jsonl']);
  });

  test('a dev-key that is no key is refused with exit 2', async (t) => {
    const here = new WorkingFolder(t);
    here.write('data/dev-key', 'secret-but-no-key\n');
    const ended = await here.command('--dev --port 0');
    assertRefused(ended, 2, /data\/dev-key holds no key; delete it/);
    assert.ok(!ended.stderr.includes('secret'));
    assert.deepEqual(here.names('data'), ['dev-key']);
  });

  test('a place where no key can be made is refused with exit 2', async (t) => {
    const here = new WorkingFolder(t, { data: '' });
    await here.refuses('--dev --port 0 --storage memory:', 2, /data\/dev-key/);
  });
});
