/**
 * R8: whatever bytes come, the answers are the contract's to the letter, and nothing is stored
 * without a 201.
 */
import { join } from 'node:path';
import {
  assertCommonHeaders,
  assertError,
  Client as BareClient,
  type Answer,
} from '../support/client.js';
import { badInputs } from './cases.js';
import type { Client } from './client.js';
import { expectedAnswers, type Expected } from './oracle.js';
import { idOf, readAllPages } from './pages.js';
import { hold, number, Violation, type Row } from './row.js';
import { started } from './server.js';
import { addBytes, requestBytes, textOf } from './wire.js';
import { reasonOf } from '../../dist/index.js';

/** How many connections try cases at once. */
const width = 24;
/** How a case is sent. */
export const ways = ['whole', 'byte by byte', 'behind a good request'] as const;
type Way = (typeof ways)[number];

export const inputs: Row = {
  id: 'R8',
  title:
    'bad inputs: damaged requests, framing, JSON, UTF-8, paths, queries, headers, keys; whole, byte by byte, behind a good request',
  fullS: 60,
  run: async (share) => {
    const { server, client } = await started(share, join(share.folder(), 'pets.jsonl'));
    const stored = new Map<string, string>();
    const first = await client.add({ name: 'first', categoryId: 1 });
    stored.set('1', first.body);
    const cases = badInputs(share.random);
    const full = cases.length * ways.length;
    const statuses = new Map<string, number>();
    let begun = 0;
    await Promise.all(
      Array.from({ length: width }, async () => {
        const good = await BareClient.connect(client.port);
        share.onEnd(() => good.destroy());
        while (share.goOn(begun, full)) {
          const [bytes = '', way = 'whole'] = [
            cases[Math.floor(begun / ways.length)],
            ways[begun % ways.length],
          ];
          begun++;
          try {
            await tryCase(client.port, bytes, way, stored, statuses);
            good.send(requestBytes('GET', '/v1/pets/1'));
            hold((await good.answer()).body === first.body, 'the next good request does not work');
          } catch (error) {
            throw new Violation(
              `${way}: ${JSON.stringify(bytes.slice(0, 3_000))}: ${reasonOf(error)}`,
            );
          }
        }
        good.destroy();
      }),
    );
    await holdStored(client, stored);
    client.close();
    server.holdNoError();
    hold((await server.end('SIGTERM')).code === 0, 'it does not end with 0');
    const told = [...statuses].sort().map(([words, times]) => `${words} ${number(times)}`);
    return `${begun < full ? `${number(begun)} of ` : ''}${number(full)} cases, each answered as a second reading of the contract says: ${told.join(', ')}; 0 of 5xx besides 501; ${number(stored.size)} animals stored, each by a 201`;
  },
};

/** Sends bytes, closes the sending side, and holds all that comes back against the oracle. */
export async function tryCase(
  port: number,
  bytes: string,
  way: Way,
  stored: Map<string, string>,
  statuses: Map<string, number>,
): Promise<void> {
  const all =
    way === 'behind a good request' ? addBytes({ name: 'in front', categoryId: 1 }) + bytes : bytes;
  const client = await BareClient.connect(port);
  try {
    // Long ones come in pieces too, but not by the byte.
    if (way === 'byte by byte') await client.drip(all, all.length > 3_000 ? 997 : 1);
    else client.send(all);
    client.half();
    for (const expected of expectedAnswers(all, (id) => id === 1n)) {
      const answer = await client.answer(expected.isHead === true ? 'HEAD' : 'GET');
      const words = holdAnswer(answer, expected, stored);
      if (words !== '100')
        statuses.set(words.slice(0, 3), (statuses.get(words.slice(0, 3)) ?? 0) + 1);
      const closes = answer.headers.get('connection')?.includes('close') ?? false;
      hold(
        expected.closes === 'maybe' || closes === expected.closes,
        `answered ${words}, the connection ${closes ? 'closes' : 'is kept'}`,
      );
      if (closes) break;
    }
    await client.closed();
    // EPIPE is our own: what is left of a case when the server has said enough.
    hold(client.failure?.message.includes('ECONNRESET') !== true, 'the connection is reset');
  } finally {
    client.destroy();
  }
}

/** What an answer is, as `400 invalid_json`. */
function holdAnswer(
  answer: Answer,
  { words, isHead, animal }: Expected,
  stored: Map<string, string>,
): string {
  const { status } = answer;
  const code =
    status >= 400 && isHead !== true ? String(JSON.parse(textOf(answer.body)).code) : undefined;
  const is = code === undefined ? String(status) : `${status} ${code}`;
  const fits = words.some((each) => each === is || (isHead === true && each.startsWith(is)));
  hold(fits, `answered ${is}, not ${words.join(' or ')}: ${answer.body.slice(0, 200)}`);
  if (code !== undefined) assertError(answer, status, code);
  else if (status !== 100) assertCommonHeaders(answer);
  if (status === 201) {
    const body = textOf(answer.body);
    const id = idOf(body);
    hold(body === `{"id":${id},${animal}`, `another animal is answered: ${body.slice(0, 200)}`);
    hold(!stored.has(id), `id ${id} is given twice`);
    stored.set(id, body);
  }
  return is;
}

/** The whole list is what was answered 201, byte for byte. */
async function holdStored(client: Client, stored: ReadonlyMap<string, string>): Promise<void> {
  const found = await readAllPages(client);
  for (const [id, animal] of found)
    hold(stored.get(id) === animal, `stored, but never answered: ${animal.slice(0, 200)}`);
  hold(found.size === stored.size, `${stored.size} were answered 201, ${found.size} are stored`);
}
