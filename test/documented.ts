/**
 * Runs the tests of test/http on the documented interface of Node alone (C79). Fails if a test
 * fails that is not among the exceptions.
 */
import { spawnSync } from 'node:child_process';
import { runTests } from './support/tap.js';

/** Each test that may fail, by the beginning of its name, with the reason. */
const exceptions: Readonly<Record<string, string>> = {
  'C51 closes after 64 KiB that follow an early response':
    'After its last response the server reads for 1 s, whatever the number of bytes.',
  'C9 responds at once to a GET with a body over the limit':
    'After its last response the server reads for 1 s, whatever the number of bytes.',
  'C42 accepts tabs and spaces around the values of headers':
    'Node 20 rejects a tab after a Content-Length.',
  'C42 accepts a tab after a Content-Length under HTTPS':
    'Node 20 rejects a tab after a Content-Length.',
  'C44 ends late bodies without a timer of Node, whatever `complete`':
    'The member `complete` is documented, and relied on.',
  'C52 sends all responses to a client that closed its sending side':
    'Node closes the connection with the sending side of the client.',
  'C52 C53 sends the response to a TLS client that closed its sending side':
    'Node closes the connection with the sending side of the client.',
  'P1–P5 C42 C52 C53 responds to damaged requests by the contract':
    'The client of this test closes its sending side.',
  'C53 carries out complete queued requests although their client has left':
    'Node destroys the queued requests of a client that has left.',
  'publishes each response to Node’s observers, and never starts the stream':
    'Node starts the stream of each request.',
  'C52 stops reading the socket while a request is queued':
    'Up to 256 requests are read, because Node resumes the socket.',
  'C52 parses nothing after the request that overflows the queue':
    'Node parses the rest of the packet.',
  'C55 queues responses over 64 MiB':
    'Each connection has a bound of its own, but all together have none.',
};

const [pattern = 'test-dist/http/*.test.js'] = process.argv.slice(2);
const files = spawnSync('sh', ['-c', `ls ${pattern}`], { encoding: 'utf8' }).stdout.split('\n');
const { passed, failed } = await runTests(
  files.filter((file) => file !== ''),
  { PETSTORE_TEST_INTERFACE: 'documented' },
);
const reasonFor = (name: string) =>
  Object.entries(exceptions).find(([beginning]) => name.startsWith(beginning))?.[1];
process.stdout.write(`${passed} tests passed, ${failed.length} failed\n`);
for (const name of failed)
  process.stdout.write(`- ${name}: ${reasonFor(name) ?? 'NOT AN EXCEPTION'}\n`);
if (passed === 0 || failed.some((name) => reasonFor(name) === undefined)) process.exitCode = 1;
