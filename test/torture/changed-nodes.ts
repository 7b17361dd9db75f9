/**
 * R16: a server on a Node whose HTTP library is changed in one place. Either the change is
 * harmless, or the self-check detects it and the server uses Node's documented interface (C79,
 * C80).
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../support/client.js';
import { childEnvironment } from '../support/environment.js';
import { key, requestBytes } from '../support/fixture.js';
import { memoryOf } from '../support/kernel.js';
import { root, serverFile } from '../support/process.js';
import { count, inTime, Skip, type Share, type TortureRow } from './row.js';
import { TorturedServer, ownPath } from './scene.js';

/** A change: a module of Node's library, a text in it, and the replacement. */
type Change = readonly [module: string, from: string, to: string];

const readablePush = 'require("stream").Readable.prototype.push.call(stream,';
const isParseError = 'socketOnError.call(socket, ret);\n  } else if (parser.incoming';

/** Changes that a later version of Node may contain. The keys complete "a Node that …". */
const changes: Readonly<Record<string, Change>> = {
  'makes responses of its own class': [
    '_http_server',
    'new server[kServerResponse](req',
    'new ServerResponse(req',
  ],
  'does not set `complete`': ['_http_common', 'stream.complete = true;', ''],
  'stores bodies without `push`': [
    '_http_common',
    'const ret = stream.push(b);',
    `const ret = ${readablePush} b);`,
  ],
  'ends bodies without `push`': ['_http_common', 'stream.push(null);', `${readablePush} null);`],
  'ends requests without a body later': [
    '_http_common',
    'stream.push(null);',
    'if (stream.headers["content-length"]) stream.push(null); ' +
      'else queueMicrotask(() => stream.push(null));',
  ],
  'renames `httpAllowHalfOpen`': [
    '_http_server',
    '!server.httpAllowHalfOpen',
    '!server.kAllowHalfOpen',
  ],
  'closes after a response without a head': [
    '_http_server',
    'if (res._last) {',
    'if (res._last || !res._headerSent) {',
  ],
  'has other error codes': [
    '_http_server',
    isParseError,
    `ret.code = 'ERR_PARSE'; ${isParseError}`,
  ],
  'has another code for late requests': [
    '_http_server',
    'new ERR_HTTP_REQUEST_TIMEOUT()',
    'Object.assign(new Error("late"), { code: "ERR_LATE" })',
  ],
  'has no timers': [
    '_http_server',
    'function checkConnections() {',
    'function checkConnections() { return;',
  ],
  'does not resume sockets': ['_http_common', 'readStart(parser.socket);', ''],
  'stops reading after a chunk': ['_http_common', 'if (!ret)', 'if (ret)'],
  'asks the stream if it has ended': [
    '_http_server',
    'if (req.readableEnded)',
    'if (req._readableState.endEmitted)',
  ],
  'ignores the option `IncomingMessage`': [
    '_http_server',
    'this[kIncomingMessage] = options.IncomingMessage || IncomingMessage;',
    'this[kIncomingMessage] = IncomingMessage;',
  ],
  'stops pausing its parser': ['_http_server', "socket.on('pause', onSocketPause);", ''],
  'keeps its listeners of a response': [
    '_http_server',
    'res.detachSocket(socket);',
    'res.detachSocket(socket); if (!res._headerSent) socket.on("x", () => res);',
  ],
  'keeps unsent responses': [
    '_http_server',
    'res.detachSocket(socket);',
    'res.detachSocket(socket); if (!res._headerSent) (server.kept ||= []).push(res);',
  ],
  'emits requests later': [
    '_http_server',
    "server.emit('request', req, res);",
    "process.nextTick(() => server.emit('request', req, res));",
  ],
};

/** The number of requests, and the growth of memory that is allowed for them. */
const manyRequests = 10_000;
const spareBytes = 16 * 2 ** 20;
/** The number of rules that may fail over the documented interface (C79). */
const maxExceptions = 3;

export const changedNodes: TortureRow = {
  id: 'R16',
  title: 'servers on Nodes whose own HTTP library has one internal changed',
  fullS: 200,
  run: async (share) => {
    const names = Object.keys(changes);
    let [done, detected] = [0, 0];
    for (const name of names) {
      if (!share.goOn(done, names.length)) break;
      if (await tryChange(share, name)) detected++;
      done++;
    }
    return `${count(done, names.length, 'changes')}: ${done - detected} harmless, ${detected} detected`;
  },
};

/** Tries a change. @returns true if the self-check has detected it */
async function tryChange(share: Share, name: string): Promise<boolean> {
  const loader = join(root, 'test/torture/changed-node.cjs');
  const path = ownPath(share);
  const server = new TorturedServer(share, path, {
    node: ['--expose-internals', '--no-warnings', '--require', loader],
    env: {
      PETSTORE_API_KEYS: key,
      PETSTORE_SELF_CHECK: '1',
      CHANGED_NODE: JSON.stringify(changes[name]),
    },
  });
  const clients = await server.clients();
  if (server.stderr.includes('CHANGED_NODE')) throw new Skip(server.stderr);
  assert.ok(clients !== undefined, `no start on a Node that ${name}: ${server.stderr}`);
  const warning = server.lines.find((line) => line.includes("Node's documented interface"));
  const isDetected = warning !== undefined;
  try {
    const failed = failedRules(server.url);
    assert.ok(failed.length <= (isDetected ? maxExceptions : 0), `these rules fail: ${failed}`);
    await checkRequests(server, isDetected);
  } catch (error) {
    throw new Error(`a Node that ${name}, ${isDetected ? 'detected' : 'not detected'}`, {
      cause: error,
    });
  }
  await server.end('SIGKILL');
  rmSync(path, { force: true });
  return isDetected;
}

/** Returns the numbers of the rules that fail in `petstore verify`. */
function failedRules(url: string): readonly string[] {
  const { stdout } = spawnSync(
    process.execPath,
    [serverFile, 'verify', url, '--key', key, '--format', 'json'],
    { encoding: 'utf8', env: childEnvironment(), timeout: 60_000 },
  );
  const { verdicts }: { verdicts: readonly { number: string; outcome: string }[] } =
    JSON.parse(stdout);
  return verdicts.filter(({ outcome }) => outcome === 'failed').map((each) => each.number);
}

/** Checks adds, a half-closed client, and the memory of many requests on one connection. */
async function checkRequests(server: TorturedServer, isDetected: boolean): Promise<void> {
  const headers = ['Content-Type: application/json'];
  const post = requestBytes('POST', '/v1/pets', { headers, body: '{"name":"a","categoryId":1}' });
  const get = requestBytes('GET', '/v1/pets/1');
  const adding = (await Client.connect(server.port)).send(post.repeat(3));
  await adding.expect(201, 201, 201);
  adding.destroy();

  if (!isDetected) {
    const half = (await Client.connect(server.port)).send(get.repeat(3));
    half.endSending();
    await half.expect(200, 200, 200);
    await half.closed();
  }

  const client = await Client.connect(server.port);
  const send = async (many: number): Promise<void> => {
    for (let sent = 0; sent < many; sent += 50) {
      client.send(get.repeat(50));
      await inTime(client.expect(...Array<number>(50).fill(200)), 'responses', 20_000);
    }
  };
  await send(2_000);
  const before = memoryOf(server.pid);
  await send(manyRequests);
  const grown = memoryOf(server.pid) - before;
  client.destroy();
  assert.ok(grown < spareBytes, `memory grew by ${grown} bytes in ${manyRequests} requests`);
}
