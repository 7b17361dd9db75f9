// Tests that `verify` ends with a reason if a response of the server never ends.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verifyPetstore, type RuleFailure } from '../../dist/conformance/index.js';
import { key } from '../support/fixture.js';
import { root, StartedProcess } from '../support/process.js';
import { startWrong, type EndlessResponse } from './wrong-server.js';

const ok = 'HTTP/1.1 200 OK\r\n';
const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`;
const ofHead = 'the head of the response is longer than 64 KiB';
const ofResponse = 'the response is longer than 16 MiB';
const ofChunks = 'the sizes, extensions and trailers of its chunks are longer than 256 KiB';

/** The reason with which a rule must fail, for each kind of an endless response. */
const kinds: Readonly<Record<string, readonly [reason: string, response: EndlessResponse]>> = {
  'header lines': [ofHead, { begin: ok, repeat: 'X-Filler: a\r\n' }],
  'one header line': [ofHead, { begin: `${ok}X-Long: `, repeat: 'a' }],
  'spaces in a header line': [ofHead, { begin: `${ok}X-Long: a`, repeat: ' ' }],
  'bytes without a status line': [ofHead, { begin: '', repeat: 'garbage' }],
  'interim responses': [
    ofHead,
    { begin: '', repeat: 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n' },
  ],
  'a body without a length': [ofResponse, { begin: `${ok}Connection: close\r\n\r\n`, repeat: '[' }],
  'empty lines as a body': [
    ofResponse,
    { begin: `${ok}Connection: close\r\n\r\n`, repeat: '\r\n\r\n' },
  ],
  'a body of large chunks': [
    ofResponse,
    { begin: chunked, repeat: `4000\r\n${'a'.repeat(0x4000)}\r\n` },
  ],
  'a body of tiny chunks': [ofChunks, { begin: chunked, repeat: '1\r\na\r\n' }],
  'an extension of a chunk': [ofChunks, { begin: `${chunked}1;`, repeat: 'a=b;' }],
  'extensions of chunks': [ofChunks, { begin: chunked, repeat: '1;a=b\r\na\r\n' }],
  trailers: [ofChunks, { begin: `${chunked}0\r\n`, repeat: 'A: b\r\n' }],
  'a length of 10^15': [
    'its Content-Length of 1000000000000000 is over the bound of 16 MiB',
    { begin: `${ok}Content-Length: 1000000000000000\r\n\r\n`, repeat: 'a' },
  ],
  'a chunk of 4 GiB': [ofResponse, { begin: `${chunked}FFFFFFFF\r\n`, repeat: 'a' }],
  'a body that drips': [
    'the response is not complete after 10 s',
    { begin: `${ok}Content-Length: 10000\r\n\r\n`, repeat: 'a', isSlow: true },
  ],
};

for (const [kind, [reason, response]] of Object.entries(kinds))
  test(`verify fails one rule if its response is endless: ${kind}`, async (t) => {
    // Only S3 sends this request.
    const url = await startWrong(t, {
      endless: (request) =>
        request.startsWith('GET /v1/pets/9223372036854775807 ') ? response : undefined,
    });

    const failures = new Map<string, RuleFailure | undefined>();
    for await (const { number, outcome, failure } of verifyPetstore({
      url,
      key,
      level: 'specification',
    }))
      if (outcome === 'failed') failures.set(number, failure);
    assert.deepEqual([...failures.keys()], ['S3'], 'the rules that fail');
    const { came = '', cameBytes = '' } = failures.get('S3') ?? {};
    assert.ok(came.startsWith(reason), `S3 must fail with "${reason}", not with "${came}"`);
    assert.ok(cameBytes.length <= 65_536, `${cameBytes.length} bytes are kept of the response`);
  });

test('verify uses less than 700 MiB if almost no response ends', async (t) => {
  const [, response] = kinds['a body without a length'] ?? assert.fail('no such kind');
  const url = await startWrong(t, {
    endless: (request) => (request.startsWith('GET /v1/pets?limit=1 ') ? undefined : response),
  });
  const script = `
    import { verifyPetstore } from ${JSON.stringify(import.meta.resolve('../../dist/conformance/index.js'))};
    const verdicts = [];
    for await (const verdict of verifyPetstore({ url: '${url}', key: '${key}' })) verdicts.push(verdict);
    const held = verdicts.filter(({ outcome }) => outcome === 'passed').length;
    console.log(verdicts.length - held, process.resourceUsage().maxRSS / 1024);`;
  const args = ['--input-type=module', '--eval', script];
  const { stdout, stderr } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
  assert.equal(stderr, '');
  const [others = 0, mebibytes = Infinity] = stdout.split(' ').map(Number);
  assert.ok(others > 30, `${others} rules do not hold`);
  assert.ok(mebibytes < 700, `verify used ${mebibytes} MiB`);
});

test('verify fails only P3 if the first response never ends', async (t) => {
  const [reason, response] = kinds['header lines'] ?? assert.fail('no such kind');
  const url = await startWrong(t, { endless: () => response });

  for await (const { number, outcome, reason: why, failure } of verifyPetstore({ url, key }))
    if (number === 'P3') assert.deepEqual([outcome, failure?.came], ['failed', reason]);
    else assert.deepEqual([outcome, why], ['untried', 'depends on P3, which is broken'], number);
});
