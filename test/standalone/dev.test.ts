// Tests --dev: its key and its curl line.
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { takenPort, assertRefused, freePort, type StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';
import { testInFolder, testRefusal } from '../support/working-folder.js';

function banner(server: StartedProcess): Promise<string> {
  return until('the curl line', () => server.lines.find((line) => line.startsWith('curl ')));
}

describe('--dev', { concurrency: 4 }, () => {
  testInFolder('prints a shell command that adds a pet and lists it', async (here) => {
    const server = await here.start('PETSTORE_API_KEYS= --dev');
    const { code, stdout, stderr } = await here.shell(await banner(server)).ended;
    assert.equal(code, 0, stderr);
    const pet = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';
    assert.equal(stdout, `${pet}\n[${pet}]\n`);
    await server.end();
    // The log line, the addresses, the command, then a log line for each of the two requests and
    // for the shutdown.
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

  testInFolder(
    'C40 stores the key in data/dev-key with mode 600, reuses it and never logs it',
    async (here) => {
      const first = await here.start('PETSTORE_API_KEYS= --dev');
      const key = here.read('data/dev-key').trim();
      assert.match(key, /^psk_[A-Za-z0-9_-]{43}$/);
      assert.deepEqual([here.mode('data/dev-key'), here.mode('data')], [0o600, 0o700]);
      assert.ok((await banner(first)).includes(`Bearer ${key}'`));
      assert.equal(await first.status('/v1/pets', key), 200);
      await first.end();
      assert.ok(!JSON.stringify(first.log).includes(key));
      assert.equal(first.log.find(({ msg }) => msg === 'request')?.['key'], 'dev');
      const second = await here.start('PETSTORE_API_KEYS= --dev');
      assert.equal(await second.status('/v1/pets', key), 200);
    },
  );

  testInFolder('accepts other keys too, and prints its command with --log silent', async (here) => {
    const port = await freePort();
    const server = here.begin(`PETSTORE_API_KEYS=other --dev --log silent --port ${port}`);
    const line = await banner(server);
    const url = `http://127.0.0.1:${port}`;
    assert.equal(server.stdout, `Page: ${url}/  Docs: ${url}/docs\n${line}\n`);
    const headers = { Authorization: 'Bearer other' };
    assert.equal((await fetch(`${url}/v1/pets`, { headers })).status, 200);
  });

  testInFolder(
    'prints a reachable address when listening on all, and logs no requests with --log info',
    async (here) => {
      const server = await here.start(
        'PETSTORE_API_KEYS= --dev --host 0.0.0.0 --storage memory: --log info',
      );
      assert.match(await banner(server), /http:\/\/127\.0\.0\.1:\d+\/v1\/pets'$/);
      await server.get('/healthz');
      await server.end();
      assert.ok(!server.log.some(({ msg }) => msg === 'request'));

      const six = await here.start('PETSTORE_API_KEYS= --dev --host :: --storage memory:');
      assert.match(await banner(six), /http:\/\/\[::1\]:\d+\/v1\/pets'$/);
      assert.equal((await here.shell(await banner(six)).ended).code, 0);
    },
  );

  testInFolder(
    'exits with 2 if the port is in use, suggests another port and creates no folder',
    async (here, t) => {
      const port = await takenPort(t);
      const other = port < 60_000 ? port + 100 : port - 100;
      const message = new RegExp(
        `^cannot listen on 127\\.0\\.0\\.1 port ${port}: the port is in use; choose another with \`PORT=${other} make run\` or --port ${other}\\n$`,
      );
      await here.refuses(`PORT=${port} --dev`, 2, message);
      assert.deepEqual(here.names(), []);
    },
  );

  testInFolder(
    'makes no key if the storage is refused',
    { 'pets.jsonl': 'a shopping list\n' },
    async (here) => {
      const ended = await here.command('--dev --port 0 --storage file:pets.jsonl');
      assertRefused(ended, 3, /pets\.jsonl line 1/);
      assert.deepEqual(here.names(), ['pets.jsonl']);
    },
  );

  testRefusal('--dev', /data\/dev-key has no valid key; delete the file/, {
    'data/dev-key': 'secret-but-no-key\n',
  });
  // data is a file, so the key cannot be stored.
  testRefusal('--dev --storage memory:', /data\/dev-key/, { data: '' });
});
