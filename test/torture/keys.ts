/**
 * R13: the server never writes a key anywhere, and the time of a comparison reveals nothing about a
 * digest.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { requestBytes, exchange, type RequestParts } from '../support/fixture.js';
import { serverFile } from '../support/process.js';
import { until } from '../support/waiting.js';
import { timeDigests } from './digest-timing.js';
import { tool } from './file-system.js';
import { printDetails, type Share, type TortureRow } from './row.js';
import { TorturedServer } from './scene.js';

export const keys: TortureRow = {
  id: 'R13',
  title:
    'keys: a search for keys in all that the server writes, and the time to compare 31 equal bytes of a digest',
  fullS: 10,
  run: async (share) => `${await searchPlaces(share)}; ${await timeDigests(share)}`,
};

/**
 * Sends a server its keys in every way that a client or an operator can, and searches for them in
 * everything that the server writes.
 */
async function searchPlaces(share: Share): Promise<string> {
  const folder = join(share.workFolder, 'data');
  const keysFile = join(folder, 'keys.json');
  const change = (...args: readonly string[]): string =>
    tool(process.execPath, serverFile, 'keys', ...args, '--keys-file', keysFile).trim();
  mkdirSync(folder);
  const [key, revoked] = [change('add', 'alice'), change('add', 'bob')];
  writeFileSync(join(share.workFolder, 'broken.mjs'), brokenPlugin);
  // Allows a core dump, which must not be written into the data folder.
  const server = new TorturedServer(share, join(folder, 'pets.jsonl'), {
    under: ['sh', '-c', 'ulimit -c unlimited; exec "$@"', 'sh'],
    args: ['--keys-file', keysFile, '--log', 'requests', '--plugin', './broken.mjs'],
    env: {},
  });
  assert.ok(await server.clients(), 'a start with a keys file failed');
  const responses: string[] = [];
  for (const bytes of [key, revoked].flatMap(requestsWith))
    responses.push((await exchange(server.port, bytes)).came);

  const ofProcess = ['cmdline', 'comm', 'environ'].map((name) =>
    readFileSync(`/proc/${server.pid}/${name}`, 'latin1'),
  );
  assert.match(ofProcess[0] ?? '', /server\.js/, 'the process is not the server');
  change('revoke', 'bob');
  server.signal('SIGHUP');
  const asBob = requestBytes('GET', '/v1/pets', { authorization: `Bearer ${revoked}` });
  await until(
    'a 401 for the revoked key',
    async () => (await exchange(server.port, asBob)).status === 401,
  );
  // An invalid keys file, into which a key was pasted by mistake.
  writeFileSync(`${keysFile}.new`, `{"keys":[{"name":"carol","sha256":"${key}"}]} ${revoked}`);
  renameSync(`${keysFile}.new`, keysFile);
  server.signal('SIGHUP');
  await until('a log line about the bad keys file', () => /"error".*keys/.test(server.stdout));
  renameSync(keysFile, join(share.workFolder, 'bad-keys.json'));
  const { stderr } = await server.end('SIGABRT');

  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  assert.ok(files.includes('pets.jsonl'), 'the data folder has no file of pets');
  const places = {
    'the log': server.lines,
    'standard error': [stderr],
    'a response': responses,
    '/proc': ofProcess,
    'the data folder': [
      ...files,
      ...files.map((name) => readFileSync(join(folder, name), 'latin1')),
    ],
  };
  for (const [place, texts] of Object.entries(places)) {
    for (const secret of [key, revoked]) {
      // Eleven equal characters are not a coincidence.
      for (let at = 4; at + 11 <= secret.length; at++) {
        const found = texts.find((text) => text.includes(secret.slice(at, at + 11)));
        assert.equal(found?.slice(0, 200), undefined, `${place} contains a part of a key`);
      }
    }
  }
  printDetails(
    'R13',
    `two keys, sent in ${responses.length} requests and pasted into an invalid keys file: not found in ${server.lines.length} log lines, in standard error, in any response, in /proc, or after SIGABRT in the data folder (${files.join(', ')})`,
  );
  return `two keys sent in ${responses.length} requests: not found in the log, a response, /proc or the data folder`;
}

/** A plugin whose handler throws an error that contains the request. */
const brokenPlugin = `export default (host) => {
  host.route({ path: '/v1/broken', methods: { GET: { handler: (request) => { throw Object.assign(new Error('broken'), { request }); } } } });
};`;

/** Returns requests with a key in every place. */
function requestsWith(key: string): readonly string[] {
  const authorization = `Bearer ${key}`;
  const none = { authorization: null };
  const pet = '{"name":"Rex","categoryId":1}';
  const gets: readonly (readonly [target: string, parts?: RequestParts])[] = [
    ['/v1/pets'],
    ['/v1/broken'],
    ['/v1/pets?limit=0'],
    ['/v1/pets/7'],
    [`/v1/pets?limit=${key}&status=${key}`],
    [`/v1/pets?access_token=${key}`, none],
    [`/v1/pets/${key}`],
    [`/${key}`, none],
    ['/v1/pets', { version: key }],
  ];
  const adds: readonly RequestParts[] = [
    { body: pet },
    { headers: ['Content-Type: text/plain'], body: pet },
    { headers: ['Expect: miracles'], body: pet },
    { body: ' '.repeat(70_000) },
    { body: `{"name":"${key}"}` },
    { body: `{"name":"a","categoryId":"${key}"}` },
    { body: `{"${key}":1,"${key}":2}` },
    { body: key },
  ];
  const values = [
    key,
    `Bearer ${key}x`,
    authorization.slice(0, -1),
    `Bearer ${key}, Bearer ${key}`,
  ];
  const headers = [`Host: ${key}/`, `${key} : x`, `X: \0${key}`, `Transfer-Encoding: ${key}`];
  return [
    ...gets.map(([target, parts]) => requestBytes('GET', target, { authorization, ...parts })),
    ...adds.map((parts) => requestBytes('POST', '/v1/pets', { authorization, ...parts })),
    ...[...values, `Basic ${key}`].map((value) =>
      requestBytes('GET', '/v1/pets', { authorization: value }),
    ),
    ...headers.map((header) =>
      requestBytes('GET', '/v1/pets', { authorization, headers: [header] }),
    ),
    requestBytes('DELETE', '/v1/pets', { authorization }),
    requestBytes(key, '/v1/pets', { authorization }),
    `${key}\r\n\r\n`,
  ];
}
