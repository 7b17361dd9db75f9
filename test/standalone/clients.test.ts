// Runs the examples of README and docs/clients.md that need a server, each against the one that its
// document starts, on a port of its own; those whose language is not installed are left out.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { folder, root, Running, start, type RunningServer } from '../support/process.js';

const key = 'secret';
const rex = '{"id":1,"name":"Rex","categoryId":5}';
const isThere = (program: string, ...args: readonly string[]): boolean =>
  spawnSync(program, args).status === 0;

/** The code of a document in a language, whose first line has the name of its file, or any text. */
function example(text: string, language: string, first: string): string {
  const blocks = Array.from(text.matchAll(/^```(\w+)\n(.*?)^```$/gms));
  const found = blocks.find(([, of, code]) => of === language && code?.startsWith(first));
  return found?.[2] ?? assert.fail(`there is no ${first}`);
}

/** The server that the document starts. */
function serverOf(t: TestContext, text: string): Promise<RunningServer> {
  const command = /^PETSTORE_API_KEYS=secret node dist\/server\.js (.*)$/m.exec(text)?.[1] ?? '';
  const args = command.replace('data/', `${root}data/`).split(' ');
  return start(t, args, { cwd: folder(t), env: { PETSTORE_API_KEYS: key } });
}

/** Runs a program to its end, which must be 0. */
async function run(
  t: TestContext,
  cwd: string,
  program: string,
  ...args: readonly string[]
): Promise<string> {
  // The home folder has what is known of the languages: versions, and what Go has built before.
  const running = new Running(program, args, { cwd, env: { HOME: process.env['HOME'] } });
  atEnd(t, () => running.end('SIGKILL'));
  const { code, stdout } = await running.ended;
  assert.equal(code, 0, running.output);
  return stdout;
}

/** Writes an example as it would be for this server. */
function write(cwd: string, file: string, code: string, { url }: RunningServer): void {
  writeFileSync(join(cwd, file), code.replaceAll('http://127.0.0.1:3000', url));
}

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const clients = readFileSync(join(root, 'docs/clients.md'), 'utf8');
const withoutCurl = isThere('curl', '--version') ? false : 'curl is not installed';

test('the curl lines of the README print what they say', { skip: withoutCurl }, async (t) => {
  const server = await serverOf(t, readme);
  const code = example(readme, 'sh', 'api=');
  write(server.cwd, 'example.sh', code, server);
  const lines = (await run(t, server.cwd, 'sh', 'example.sh')).split('\n').map((line) => line.trim());
  const said = Array.from(code.matchAll(/\S # (.*)$/gm), ([, line = '']) => line);
  assert.ok(said.length >= 3, code);
  for (const line of said) assert.ok(lines.includes(line), `${line} is not in ${lines.join('\n')}`);
  assert.equal(await (await server.get('/v1/pets?after=301', key)).text(), '[]');
});
