/** Tests of `testPetstore` with the `test` function of another runner. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { test } from 'node:test';
import { testPetstore, type TestedPetstore } from '../../dist/conformance/index.js';
import { atEnd } from '../support/at-end.js';
import { key, start } from '../support/fixture.js';

/** Registers the tests of a server, and runs each with a context. Returns the messages by name. */
async function runTests(
  options: TestedPetstore,
  context: unknown,
): Promise<ReadonlyMap<string, string>> {
  const registered: [name: string, run: (...context: unknown[]) => Promise<void>][] = [];
  testPetstore({ ...options, test: (name, run) => void registered.push([name, run]) });
  const messages = new Map<string, string>();
  for (const [name, run] of registered)
    messages.set(
      name.split(' ')[0] ?? '',
      await run(context).then(
        () => '',
        (error: unknown) => String(error),
      ),
    );
  return messages;
}

test('registers a test for each rule with the test function of the caller', async (t) => {
  const { port } = await start(t);
  const skipped: string[] = [];
  const context = { skip: (reason: string) => skipped.push(reason) };
  const url = `http://127.0.0.1:${port}`;
  const messages = await runTests(
    { url, key, level: 'specification', allowUntried: true },
    context,
  );
  assert.ok(messages.size >= 10, `${messages.size} rules`);
  assert.deepEqual(
    [...messages.values()].filter((message) => message !== ''),
    [],
  );
  for (const reason of skipped) assert.match(reason, /\w/);
});

test('fails the test of a broken rule with the request, the response and a command', async (t) => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end('{}');
  }).listen(0, '127.0.0.1');
  atEnd(t, () => void server.close());
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const url = `http://127.0.0.1:${address.port}`;

  const messages = await runTests({ url, key, level: 'specification' }, undefined);
  const reports = [...messages.values()].filter((message) => /^Error: S1 /.test(message));
  assert.equal(reports.length, 1, [...messages].join('\n'));
  for (const part of ['expected:', 'cost:', 'try: curl', 'GET ', 'HTTP/1.1 200'])
    assert.ok(reports[0]?.includes(part), `${part} is not in ${reports[0]}`);
  assert.ok(!reports[0]?.includes(key), 'the key is in the report');
  const others = [...messages.values()].filter((message) => /not tried: /.test(message));
  assert.ok(others.length > 0, 'no rule depends on S1');

  const skipped: string[] = [];
  const context = { skip: (reason: string) => skipped.push(`Error: not tried: ${reason}`) };
  const options = { url, key, level: 'specification', allowUntried: true } as const;
  await runTests(options, context);
  assert.deepEqual(skipped, others, 'the same rules are skipped if that is allowed');
});
