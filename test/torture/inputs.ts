/**
 * R8: any bytes get the responses of the contract, and nothing is stored without a 201.
 */
import assert from 'node:assert/strict';
import { whole } from '../bench/report.js';
import { assertCommonHeaders, assertError, Client, type RawResponse } from '../support/client.js';
import { requestBytes, connectTo } from '../support/fixture.js';
import { badInputs } from './cases.js';
import { addBytes, utf8Of } from './clients.js';
import { idOf, readAllPages } from './ledger.js';
import { expectedResponses, type Expected } from './oracle.js';
import { atOnce, count, printDetails, type TortureRow } from './row.js';
import { Scene } from './scene.js';
import { reasonOf } from '../../dist/index.js';

/** The number of connections that try cases at once. */
const width = 24;
/** The ways to send a case. */
export const ways = ['whole', 'byte by byte', 'after a good request'] as const;
type Way = (typeof ways)[number];

export const inputs: TortureRow = {
  id: 'R8',
  title:
    'bad inputs: damaged requests, framing, JSON, UTF-8, paths, queries, headers and keys; sent whole, byte by byte, and after a good request',
  fullS: 60,
  run: async (share) => {
    const scene = await Scene.start(share);
    const { port } = scene.server;
    const first = (await scene.add({ name: 'first', categoryId: 1 })).body;
    const stored = new Map([['1', first]]);
    const cases = badInputs(share.random).flatMap((bytes) => ways.map((way) => ({ bytes, way })));
    const left = cases.values();
    const statuses = new Map<string, number>();
    let begun = 0;
    const work = async (): Promise<void> => {
      const good = await connectTo(share, { port });
      for (const { bytes, way } of left) {
        begun++;
        try {
          await tryCase(port, bytes, way, stored, statuses);
          const { body } = await good.send(requestBytes('GET', '/v1/pets/1')).nextResponse();
          assert.equal(body, first, 'the next good request failed');
        } catch (error) {
          assert.fail(`${way}: ${JSON.stringify(bytes.slice(0, 3_000))}: ${reasonOf(error)}`);
        }
        if (!share.goOn(begun, cases.length)) break;
      }
    };
    await atOnce(width, work);
    // The list has exactly the bodies of all 201 responses.
    assert.deepEqual(await readAllPages(scene.clients), stored);
    await scene.stop();
    const counts = [...statuses].sort().map(([words, times]) => `${words} ${whole(times)}`);
    printDetails('R8', `responses by status: ${counts.join(', ')}`);
    return `${count(begun, cases.length, 'cases')}: each response as a second implementation of the contract expects, 0 of 5xx except 501; ${whole(stored.size)} pets stored, each acknowledged by a 201`;
  },
};

/** Sends bytes, closes the sending side, and compares the responses with the oracle. */
export async function tryCase(
  port: number,
  bytes: string,
  way: Way,
  stored: Map<string, string>,
  statuses: Map<string, number>,
): Promise<void> {
  const all =
    way === 'after a good request' ? addBytes({ name: 'before', categoryId: 1 }) + bytes : bytes;
  const client = await Client.connect(port);
  try {
    // Sends long cases in pieces, because single bytes would take too long.
    if (way === 'byte by byte') await client.drip(all, all.length > 3_000 ? 997 : 1);
    else client.send(all);
    client.endSending();
    for (const expected of expectedResponses(all, (id) => id === 1n)) {
      const response = await client.nextResponse(expected.isHead === true ? 'HEAD' : 'GET');
      const words = checkResponse(response, expected, stored);
      if (words !== '100')
        statuses.set(words.slice(0, 3), (statuses.get(words.slice(0, 3)) ?? 0) + 1);
      const closes = response.headers.get('connection')?.includes('close') ?? false;
      assert.ok(
        expected.closes === 'maybe' || closes === expected.closes,
        `after ${words}, the connection ${closes ? 'is closed' : 'is kept open'}`,
      );
      if (closes) break;
    }
    await client.closed();
    // EPIPE is allowed, because the client may still send after the last response.
    assert.ok(client.failure?.message.includes('ECONNRESET') !== true, 'the connection is reset');
  } finally {
    client.destroy();
  }
}

/** Checks a response, and returns its status and error code, such as `400 invalid_json`. */
function checkResponse(
  response: RawResponse,
  { words, isHead, petAfterId }: Expected,
  stored: Map<string, string>,
): string {
  const { status } = response;
  const code =
    status >= 400 && isHead !== true ? String(JSON.parse(utf8Of(response.body)).code) : undefined;
  const is = code === undefined ? String(status) : `${status} ${code}`;
  const fits = words.some((each) => each === is || (isHead === true && each.startsWith(is)));
  assert.ok(fits, `${is} instead of ${words.join(' or ')}: ${response.body.slice(0, 200)}`);
  if (code !== undefined) assertError(response, status, code);
  else if (status !== 100) assertCommonHeaders(response);
  if (status === 201) {
    const body = utf8Of(response.body);
    const id = idOf(body);
    assert.ok(
      body === `{"id":${id},${petAfterId}`,
      `the response has another pet: ${body.slice(0, 200)}`,
    );
    assert.ok(!stored.has(id), `id ${id} is assigned twice`);
    stored.set(id, body);
  }
  return is;
}
