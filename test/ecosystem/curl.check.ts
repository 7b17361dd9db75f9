// Tests curl with the options that people use.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folder } from '../support/process.js';
import { documentText, key, petstoreOf, run } from './scene.js';

const authorization = `Authorization: Bearer ${key}`;
const json = 'Content-Type: application/json';

test('curl adds pets by -d, a file, chunks and 100-continue, and lists them', async (t) => {
  const { url } = await petstoreOf(t).listen({ port: 0 });
  const cwd = folder(t);
  const pets = `${url}/v1/pets`;
  const curl = (...args: readonly string[]): Promise<string> =>
    run(
      t,
      cwd,
      'curl',
      ...'--silent --show-error --max-time 10 -H'.split(' '),
      authorization,
      ...args,
    );
  const pet = '{"name":"Rex 🐕","categoryId":9223372036854775807}';
  writeFileSync(join(cwd, 'pet.json'), pet);
  const stored = (id: number): string => `{"id":${id},${pet.slice(1)}`;

  const ways = [
    ['-H', json, '-d', pet],
    ['-H', json, '-d', '@pet.json'],
    ['-H', json, '-H', 'Transfer-Encoding: chunked', '-d', '@pet.json'],
    ['-H', json, '-H', 'Expect: 100-continue', '-d', '@pet.json'],
    ['-X', 'POST', '-T', 'pet.json'],
    ['--json', '@pet.json'],
  ];
  for (const [index, words] of ways.entries())
    assert.equal(await curl('--fail', ...words, pets), stored(index + 1), words.join(' '));
  // By default curl sends the Content-Type of a form.
  assert.match(await curl('-d', pet, pets), /"code":"unsupported_media_type"/);

  for (const protocol of ['--http1.0', '--http1.1', '--http2', '--compressed']) {
    assert.equal(await curl('--fail', protocol, `${pets}/1`), stored(1), protocol);
  }
  assert.equal(
    await curl('--fail', `${pets}?limit=1`, `${pets}?limit=1&after=5`),
    `[${stored(1)}][${stored(6)}]`,
    'over one connection',
  );
  const head = await curl('--head', `${pets}?limit=2`);
  assert.match(head, /^HTTP\/1\.1 200 OK\r\n/);
  assert.match(head, /\r\nLink: <\/v1\/pets\?limit=2&after=2>; rel="next"\r\n/);
  assert.equal(
    await curl(
      '-o',
      '-',
      '-w',
      '%{http_code} %{num_connects} %{size_download}',
      '-X',
      'OPTIONS',
      pets,
    ),
    '204 1 0',
  );
  assert.match(await curl('--path-as-is', `${url}/v1/../v1/pets`), /"status":404/);
  assert.match(
    await curl('-H', json, '-d', `{"name":"${'x'.repeat(70_000)}"}`, pets),
    /"status":413/,
  );
  assert.equal(await curl(`${url}/openapi.json`), await documentText());
});
