// Runs every JavaScript example of the README as its own program; a `// …` behind a console.log is what it must print.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const readme = readFileSync(`${root}/README.md`, 'utf8');
const examples = [...readme.matchAll(/```js\n(.*?)```/gs)].map((match) => match[1] ?? '');

test('the README has examples', () => assert.ok(examples.length >= 5));

for (const [index, example] of examples.entries()) {
  test(`README example ${index + 1} runs and prints what it says`, () => {
    const printed = execFileSync(process.execPath, ['--input-type=module'], { cwd: root, input: example, encoding: 'utf8' });
    const said = [...example.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map((match) => match[1] ?? '');
    for (const line of said) assert.ok(printed.split('\n').includes(line), `${line} is not in ${printed}`);
  });
}

test('the storage file of the README is what the storage writes', async () => {
  const { crc32 } = await import('node:zlib');
  const file = /```\n(\{"id":1.*?)```/s.exec(readme)?.[1] ?? '';
  const animals = `${file.split('\n').slice(0, 2).join('\n')}\n`;
  assert.equal(file.split('\n')[2], `{"commit":{"from":0,"crc32":"${crc32(animals).toString(16).padStart(8, '0')}"}}`);
});

test('the idempotency record of the README is that of its curl line, for a key called alice', async () => {
  const { hash } = await import('node:crypto');
  const [, key = '', body = ''] = /"key":"(\w{8})…","body":"(\w{8})…"/.exec(readme) ?? [];
  const [, idempotencyKey, sent = ''] = /Idempotency-Key: (\w+)' -d '([^']+)'/.exec(readme) ?? [];
  assert.ok(hash('sha256', JSON.stringify(['alice', idempotencyKey])).startsWith(key) && key !== '');
  assert.ok(hash('sha256', sent).startsWith(body) && body !== '');
});

test('the error codes of the README are those of the code', async () => {
  const { replyErrorCodes } = await import('../build/http/reply.js');
  for (const code of replyErrorCodes) assert.ok(readme.includes(`\`${code}\``), code);
});
