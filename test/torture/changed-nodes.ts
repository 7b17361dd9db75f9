/**
 * R16: a server on a Node whose HTTP library is changed in one place. Either the change is
 * harmless, or the self-check detects it and the server uses Node's documented interface (C79,
 * C80).
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../support/client.js';
import { key, requestBytes } from '../support/fixture.js';
import { memoryOf } from '../support/kernel.js';
import { root, runServer } from '../support/process.js';
import { nodeChanges } from './node-changes.js';
import { atOnce, count, inTime, Skip, type Share, type TortureRow } from './row.js';
import { TorturedServer, ownPath } from './scene.js';

/** The number of changes that are tried at the same time, because each mostly waits. */
const changesAtOnce = 4;
/** The number of requests, and the growth of memory that is allowed for them. */
const manyRequests = 10_000;
const spareBytes = 16 * 2 ** 20;
const body = '{"name":"a","categoryId":1}';
const post = requestBytes('POST', '/v1/pets', {
  headers: ['Content-Type: application/json'],
  body,
});
const get = requestBytes('GET', '/v1/pets');
/** The number of rules that may fail over the documented interface (C79). */
const maxExceptions = 3;

export const changedNodes: TortureRow = {
  id: 'R16',
  title: 'servers on Nodes whose own HTTP library has one internal changed',
  fullS: 200,
  run: async (share) => {
    const names = Object.keys(nodeChanges);
    const rest = [...names];
    let [done, detected] = [0, 0];
    await atOnce(changesAtOnce, async () => {
      for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
        if (!share.goOn(done, names.length)) return;
        if (await tryChange(share, name)) detected++;
        done++;
      }
    });
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
      CHANGED_NODE: JSON.stringify(nodeChanges[name]),
    },
  });
  const clients = await server.clients();
  if (server.stderr.includes('CHANGED_NODE')) throw new Skip(server.stderr);
  assert.ok(clients !== undefined, `no start on a Node that ${name}: ${server.stderr}`);
  const warning = server.lines.find((line) => line.includes("Node's documented interface"));
  const isDetected = warning !== undefined;
  try {
    const idle = await Client.connect(server.port);
    await idle.send(get).expect(200);
    const failed = await failedRules(server.url, share.workFolder);
    assert.ok(failed.length <= (isDetected ? maxExceptions : 0), `these rules fail: ${failed}`);
    await idle.send(get).expect(200);
    idle.destroy();
    await checkRequests(server, isDetected);
  } catch (error) {
    const found = isDetected ? 'detected' : 'not detected';
    throw new Error(`a Node that ${name}, ${found}: ${error}`, { cause: error });
  }
  await server.end('SIGKILL');
  rmSync(path, { force: true });
  return isDetected;
}

/** Returns the numbers of the rules that fail in `petstore verify`. */
async function failedRules(url: string, cwd: string): Promise<readonly string[]> {
  const verify = runServer(['verify', url, '--key', key, '--format', 'json'], { cwd });
  const { stdout } = await inTime(verify, 'verify', 120_000);
  const { verdicts }: { verdicts: readonly { number: string; outcome: string }[] } =
    JSON.parse(stdout);
  return verdicts.filter(({ outcome }) => outcome === 'failed').map((each) => each.number);
}

/** Checks adds, clients that leave or half close, and the memory of many requests. */
async function checkRequests(server: TorturedServer, isDetected: boolean): Promise<void> {
  const adding = (await Client.connect(server.port)).send(post.repeat(3));
  await adding.expect(201, 201, 201);
  adding.destroy();

  for (const gone of [post.slice(0, -1), get.repeat(5), 'garbage']) {
    (await Client.connect(server.port)).send(gone).destroy();
    (await Client.connect(server.port)).send(gone).endSending();
  }

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
  // A leak grows each time; garbage that was not collected yet does not.
  const growths: number[] = [];
  do {
    const before = memoryOf(server.pid);
    await send(manyRequests);
    growths.push(memoryOf(server.pid) - before);
  } while (growths.length < 3 && Math.min(...growths) >= spareBytes);
  client.destroy();
  const grown = Math.min(...growths);
  assert.ok(grown < spareBytes, `memory grew by ${grown} bytes in ${manyRequests} requests`);
}
