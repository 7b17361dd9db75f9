// Tests the plugin faults of the process: its log lines, its help, the size of the journal, and a
// clock that a reset sets.
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { faultWords } from '../../dist/plugins/faults.js';
import { apiKey, type StartedServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { assertPrinted, testInFolder, testRefusals } from '../support/working-folder.js';

const post = (
  { url }: Pick<StartedServer, 'url'>,
  path: string,
  body: string,
  fault = '',
  key = apiKey,
) =>
  fetch(`${url}${path}`, {
    method: 'POST',
    body,
    headers: {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      'Petstore-Fault': fault,
    },
  });
const pet = '{"name":"Rex","categoryId":1}';

describe('the plugin faults', { concurrency: 4 }, () => {
  testInFolder(
    'C89 C90 warns at the start, and log lines name the fault and the cut',
    async (here) => {
      for (const format of ['json', 'text']) {
        const server = here.begin(
          `PETSTORE_API_KEYS=${apiKey} --storage memory: --plugin faults --log requests --log-format ${format}`,
        );
        const url = await until(
          'the address',
          () => /http:\/\/127\.0\.0\.1:\d+/.exec(server.stdout)?.[0],
        );
        const send = (fault: string) => post({ url }, '/v1/pets', pet, fault);
        await assert.rejects(send('after,drop'));
        await send('truncate,end').catch(() => undefined);
        await send('status=503');
        await send('');
        await server.end();
        const warnings = server.lines.filter((line) => line.includes('fails on purpose'));
        assert.equal(warnings.length, 1);
        assert.match(warnings[0] ?? '', /warn.*and any API key may set the rules/);
        const lines = server.lines.filter((line) => line.includes('/v1/pets'));
        if (format === 'json')
          assert.deepEqual(
            lines.map((line) => {
              const { status, fault, cut } = JSON.parse(line);
              return [status, fault, cut];
            }),
            [
              [undefined, 'drop,after', 'drop'],
              [503, 'truncate,end', 'end'],
              [503, 'status=503', undefined],
              [201, undefined, undefined],
            ],
          );
        else
          for (const [index, pattern] of [
            /POST \/v1\/pets - \d.* fault=drop,after cut=drop$/,
            /POST \/v1\/pets 503 \d.* fault=truncate,end cut=end$/,
            /POST \/v1\/pets 503 \d.* fault=status=503$/,
            /POST \/v1\/pets 201 \d.* env-1 127\.0\.0\.1$/,
          ].entries())
            assert.match(lines[index] ?? '', pattern);
      }
    },
  );

  testInFolder('help faults lists each word with its example', async (here) => {
    const ended = await here.done('help faults');
    const text = ended.stdout.replace(/\s+/g, ' ');
    for (const { syntax, about, example } of faultWords)
      assert.ok(text.includes(` ${syntax} ${about} Example: ${example} `), syntax);
    for (const line of ended.stdout.split('\n')) assert.ok(line.length <= 80, line);
    assertPrinted(ended, /^ {2}\/v1\/requests /m);
  });

  testInFolder('C82 --journal-size bounds the journal', async (here) => {
    const server = await here.start('--storage memory: --plugin faults --journal-size 1');
    await server.text('/v1/pets');
    await server.text('/v1/pets/7');
    const items = JSON.parse(await server.text('/v1/requests'));
    assert.deepEqual(
      items.map(({ path, status }: { readonly path: string; readonly status: number }) => [
        path,
        status,
      ]),
      [['/v1/pets/7', 404]],
    );
  });

  testRefusals({
    '--plugin faults --journal-size 10001':
      /^--journal-size must be a whole number from 0 to 10000, not "10001"$/m,
    '--journal-size 10': /^--journal-size is only for the plugin faults; add --plugin faults$/m,
    '--isolate': /^--isolate needs stores in memory; use it only with --storage memory:$/m,
    faults: /^unknown command faults; did you mean help faults\?$/m,
  });

  testInFolder('C88 --isolate gives each key a store', async (here) => {
    const server = await here.start(
      'PETSTORE_API_KEYS=a,b --storage memory: --plugin faults --isolate',
    );
    assert.equal((await post(server, '/v1/pets', pet, '', 'a')).status, 201);
    assert.equal(await server.text('/v1/pets', 'b'), '[]');
    assert.match(await server.text('/v1/requests', 'a'), /"key":"env-1"/);
    assert.equal(await server.text('/v1/pets', 'a'), '[{"id":1,"name":"Rex","categoryId":1}]');

    // All keys share the log, so their clocks do not change it.
    for (const key of ['a', 'b']) {
      const reset = await post(server, '/v1/reset', '{"clock":"9000-01-01T00:00:00Z"}', '', key);
      assert.equal(reset.status, 204);
    }
    await server.end();
    assert.match(String(server.log.at(-1)?.['time']), /^20\d\d-/);
  });

  testInFolder(
    'C64 C87 a reset sets the clock of the log and of keys, and the next one ends that',
    async (here) => {
      const { stdout } = await here.done('keys add ann --expires 90d');
      const key = stdout.trim();
      const server = await here.start(
        '--storage memory: --plugin faults --log requests --log-format json',
      );
      assert.equal(await server.status('/v1/pets', key), 200);
      const reset = await post(server, '/v1/reset', '{"clock":"2031-01-01T00:00:00Z"}');
      assert.equal(reset.status, 204);
      assert.equal(await server.status('/v1/pets', key), 401);
      assert.equal(await server.status('/v1/pets'), 200);
      await post(server, '/v1/reset', '');
      assert.equal(await server.status('/v1/pets', key), 200);
      await server.end();
      const times = server.log
        .filter(({ path }) => path === '/v1/pets')
        .map(({ time }) => String(time).slice(0, 4));
      const year = times[0] ?? '';
      assert.notEqual(year, '2031');
      assert.deepEqual(times, [year, '2031', '2031', year]);
    },
  );
});
