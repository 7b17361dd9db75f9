/**
 * Whether memory stays where it is, over millions of requests and many connections (issue 4, item
 * 6).
 */
import { fill } from './catalogue.js';
import { petstore } from './contestants.js';
import { clients, type Load } from './load.js';
import { get, post, reading, type ApiRequest, type Operation } from './operations.js';
import type { Part } from './part.js';
import type { Server } from './session.js';
import { decimal, megabytes, whole } from './words.js';

/** Sends it all, and compares the memory that no collection gives back, early and late. */
export const leak: Part = {
  name: 'leak',
  title: 'Memory over time',
  measure: async ({ session, load, say }) => {
    const server = await session.start(petstore('memory:'));
    await fill(server.url);
    const watch = { server, load, say };
    const rows = [
      await watched({ ...watch, what: 'mixed requests', count: 3_000_000, next: mixedRequests }),
      await watched({
        ...watch,
        what: 'connections',
        count: 200_000,
        next: () => ({ ...reading.one, requests: [{ ...get('/v1/pets/500'), closes: true }] }),
      }),
    ];
    const note =
      'Looked at behind each second of load. Memory goes up and down with garbage collection, so its low points are compared: the least from the first ' +
      'tenth to the half, and the least from six tenths to the end. Requests are mixed of all that reads and all that is refused, wrong keys, unknown ids ' +
      'and pages always others; adding grows memory by right, so it is not among them.';
    return {
      tables: [
        {
          title: 'Resident memory',
          note,
          head: ['', 'sent', 'least, early', 'least, late', 'late by early', 'most'],
          rows,
        },
      ],
    };
  },
};

interface Watch {
  readonly server: Server;
  readonly load: Load;
  readonly say: (what: string) => void;
  readonly what: string;
  /** How many requests to send at least. */
  readonly count: number;
  /** What is sent in the next second. */
  readonly next: () => Operation;
}

async function watched({
  server,
  load,
  say,
  what,
  count,
  next,
}: Watch): Promise<readonly string[]> {
  const samples: { readonly share: number; readonly bytes: number }[] = [];
  let sent = 0;
  while (sent < count) {
    sent += (await load.send(server.url, next(), clients.sleeping, 1)).requests;
    samples.push({ share: sent / count, bytes: server.process.residentBytes });
    say(`${whole(sent)} of ${whole(count)} ${what}`);
  }
  const leastBetween = (from: number, to: number): number =>
    Math.min(
      ...samples.filter(({ share }) => share >= from && share < to).map(({ bytes }) => bytes),
    );
  const [early, late] = [leastBetween(0.1, 0.5), leastBetween(0.6, Infinity)];
  const most = Math.max(...samples.map(({ bytes }) => bytes));
  return [
    what,
    whole(sent),
    megabytes(early),
    megabytes(late),
    decimal(late / early),
    megabytes(most),
  ];
}

/**
 * New wrong keys and unknown ids each time, so that whatever is remembered of them must be
 * forgotten again.
 */
function mixedRequests(): Operation {
  const requests = Array.from({ length: 2_000 }, (): ApiRequest => {
    const number = Math.floor(Math.random() * 1_000_000);
    switch (number % 8) {
      case 0:
        return get(`/v1/pets/${1 + (number % 1_000)}`);
      case 1:
        return get(`/v1/pets?limit=${1 + (number % 100)}`);
      case 2:
        return get(`/v1/pets?after=${number % 1_000}`);
      case 3:
        return get(`/v1/pets?status=sold&after=${number % 1_000}`);
      case 4:
        return get(`/v1/pets/${1_000_000 + number}`);
      case 5:
        return { method: 'GET', path: '/v1/pets', key: `psk_wrong-${number}` };
      case 6:
        return get(`/v1/pets?limit=${101 + number}`);
      default:
        return post({ name: number });
    }
  });
  return { name: 'mixed', requests, status: 'mixed' };
}
