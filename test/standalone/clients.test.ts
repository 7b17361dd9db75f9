// Tests the examples of README.md and docs/clients.md against a server on a free port. An example
// whose language is not installed is skipped.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { childEnvironment } from '../support/environment.js';
import { folder, root, StartedProcess } from '../support/process.js';
import { WorkingFolder } from '../support/working-folder.js';

const key = 'secret';
const rex = '{"id":1,"name":"Rex","categoryId":5}';
/** A writable home folder, because compilers keep their caches there. */
const env = { HOME: folder({ after }), GOTOOLCHAIN: 'local' };
const isThere = (program: string, ...args: readonly string[]): boolean =>
  spawnSync(program, args, { env: childEnvironment(env) }).status === 0;

/** Returns the code block of a document that begins with a text, or with a comment of that text. */
function example(text: string, first: string): string {
  const blocks = Array.from(text.matchAll(/^```\w+\n(.*?)^```$/gms), ([, code = '']) => code);
  const found = blocks.find((code) => code.replace(/^(#|\/\/) /, '').startsWith(first));
  return found ?? assert.fail(`there is no ${first}`);
}

/** Joins each line that ends with a backslash to its next line, as a shell does. */
const joinLines = (text: string): string => text.replace(/\\\n */g, '');

/** Starts a server as the document does, and writes examples that call it to its folder. */
async function startWithExamples(
  t: TestContext,
  text: string,
  examples: Readonly<Record<string, string>>,
) {
  const here = new WorkingFolder(t);
  const [, command = ''] =
    /^PETSTORE_API_KEYS=secret node dist\/server\.js (.*)$/m.exec(joinLines(text)) ?? [];
  const line = command.replace('data/', `${root}data/`);
  const server = await here.start(line, { PETSTORE_API_KEYS: key });
  for (const [file, code] of Object.entries(examples))
    here.write(file, code.replaceAll('http://127.0.0.1:3000', server.url));
  return { server, cwd: here.path };
}

/** Runs a program, which must exit with 0, and returns its standard output. */
async function run(
  t: TestContext,
  cwd: string,
  [program = '', ...args]: readonly string[],
): Promise<string> {
  // A group, because `go run` starts the program that it builds.
  const running = new StartedProcess(program, args, { cwd, env, isGroup: true });
  atEnd(t, () => running.end('SIGKILL'));
  const { code, stdout } = await running.ended;
  assert.equal(code, 0, running.output);
  return stdout;
}

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const clients = readFileSync(join(root, 'docs/clients.md'), 'utf8');

/** Returns the reason to skip a test, or false. */
const unless = (isInstalled: boolean, name: string): string | false =>
  isInstalled ? false : `${name} is not installed`;
const withoutCurl = unless(isThere('curl', '--version'), 'curl');

test('the curl commands of README.md print what their comments say', {
  skip: withoutCurl,
}, async (t) => {
  const code = example(readme, 'api=');
  const { server, cwd } = await startWithExamples(t, readme, { 'example.sh': code });
  const printed = (await run(t, cwd, ['sh', 'example.sh'])).split('\n').map((line) => line.trim());
  const said = Array.from(code.matchAll(/\S # (.*)$/gm), ([, line = '']) => line);
  assert.ok(said.length >= 3, code);
  for (const line of said) assert.ok(printed.includes(line), `${line} is not in ${printed}`);
  assert.equal(await server.text('/v1/pets?after=301', key), '[]');
});

const ways: readonly {
  readonly file: string;
  readonly skip: string | false;
  readonly command: readonly string[];
}[] = [
  { file: 'add.sh', skip: false, command: ['sh', 'add.sh'] },
  {
    file: 'add.py',
    skip: unless(isThere('python3', '--version'), 'Python'),
    command: ['python3', 'add.py'],
  },
  {
    file: 'add.go',
    skip: unless(isThere('go', 'version'), 'Go'),
    command: ['go', 'run', 'add.go'],
  },
  {
    file: 'AddOnce.java',
    skip: unless(isThere('javac', '--version'), 'Java'),
    command: ['java', 'AddOnce.java'],
  },
];

/** A proxy's page with an HTTP date in Retry-After, after the pet was stored without a response. */
const faults = ['drop,after', 'status=503,html,retry-after=date'];

const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
const send = async (method: string, url: string, body: object): Promise<void> => {
  const response = await fetch(url, { method, headers, body: JSON.stringify(body) });
  assert.ok(response.ok, await response.text());
};

// drop.sh, which sets the fault in each test, needs curl.
describe('docs/clients.md, if the connection drops after the pet is added', {
  skip: withoutCurl,
}, () => {
  for (const { file, skip, command } of ways)
    test(`${file} adds a pet exactly once`, { skip }, async (t) => {
      const { server, cwd } = await startWithExamples(t, clients, {
        'drop.sh': example(clients, 'drop.sh'),
        [file]: example(clients, file),
      });
      // curl compares an HTTP date with the clock of the machine, other clients with the header Date.
      if (file !== 'add.sh')
        await send('POST', `${server.url}/v1/reset`, { clock: '2030-01-01T00:00:00Z' });
      await run(t, cwd, ['sh', 'drop.sh']);
      assert.match(await server.text('/v1/faults', key), /"fault":"drop,after","times":1/);
      const rules = faults.map((fault) => ({ path: '/v1/pets', method: 'POST', fault, times: 1 }));
      await send('PUT', `${server.url}/v1/faults`, { rules });
      const printed = await run(t, cwd, command);

      assert.equal(printed.trim().replaceAll(/(?<=[:,]) /g, ''), rex);
      assert.equal(await server.text('/v1/pets', key), `[${rex}]`);
      const attempts: readonly Readonly<Record<string, unknown>>[] = JSON.parse(
        await server.text('/v1/requests?path=/v1/pets&method=POST', key),
      );
      assert.deepEqual(
        attempts.map(({ fault, cut, replayed }) => [fault, cut, replayed]),
        [
          [faults[0], true, false],
          [faults[1], false, false],
          [undefined, false, true],
        ],
      );
      assert.equal(new Set(attempts.map(({ idempotencyKey }) => idempotencyKey)).size, 1);
      const [, second = 0, third = 0] = attempts.map(({ time }) => Date.parse(String(time)));
      assert.ok(third - second >= 950, `${third - second} ms in spite of Retry-After`);
    });
});

const withoutSource =
  Number.parseInt(process.versions.node, 10) >= 21 ? false : 'Node is older than 21';

test('the short parse function of docs/clients.md keeps each digit', {
  skip: withoutSource,
}, async (t) => {
  const cwd = folder(t);
  const parse = example(clients, 'const parse');
  const say = `console.log(parse('[{"id":9223372036854775807,"name":"5"}]')[0]);`;
  writeFileSync(join(cwd, 'short.mjs'), parse + say);
  const printed = await run(t, cwd, [process.execPath, 'short.mjs']);
  assert.equal(printed, "{ id: 9223372036854775807n, name: '5' }\n");
});
