/** What each operation costs as the catalogue grows (issue 4, item 4). */
import { firstWrittenId, writeCatalogue } from './catalogue.js';
import { petstore } from './contestants.js';
import { interleaved } from './figures.js';
import { clients } from './load.js';
import { addingToFile, get, reading, type ApiRequest, type Operation } from './operations.js';
import type { Part } from './part.js';
import type { Server } from './session.js';
import { decimal } from './words.js';

/** The first is what the others are measured against, the last how far that may be off. */
const catalogues = [
  { name: '1,000', count: 1_000 },
  { name: '100,000', count: 100_000 },
  { name: '1,000,000', count: 1_000_000 },
  { name: '1,000 again', count: 1_000 },
] as const;

/** As many for each size, and more than there are pages that a server would remember. */
const spots = 900;

/**
 * Measures the same operations over catalogues of all sizes, those that look anywhere with requests
 * for all of it.
 */
export const growth: Part = {
  name: 'growth',
  title: 'Growth of the catalogue',
  measure: async ({ session, load, rounds, say }) => {
    const folder = session.folder();
    const servers: { readonly server: Server; readonly operations: readonly Operation[] }[] = [];
    for (const { name, count } of catalogues) {
      const path = `${folder}/${name}.jsonl`;
      writeCatalogue(path, count);
      servers.push({
        server: await session.start(petstore(`file:${path}`, name)),
        operations: operationsOver(count),
      });
    }
    const rows: string[][] = [];
    for (const { name } of operationsOver(catalogues[0].count)) {
      say(`${name}, in catalogues of all sizes`);
      const turns = servers.flatMap(({ server, operations }) =>
        operations
          .filter((operation) => operation.name === name)
          .map((operation) => ({ server, operation })),
      );
      const figures = [
        ...(
          await interleaved(turns, {
            load,
            client: clients.sleeping,
            rounds: Math.ceil(rounds / 2),
          })
        ).values(),
      ];
      rows.push([
        name,
        ...figures.map(({ cpuUs, ratio }, index) =>
          index === 0 ? decimal(cpuUs, 1) : decimal(1 / ratio),
        ),
      ]);
    }
    const note =
      'Processor time for each request: in microseconds with 1,000 animals, then as a multiple of that; below 1.10 is within 10 %. The last column ' +
      'is the error. One, page anywhere and 404 ask for all of the catalogue in turn; the rarest status has 25 animals, whatever the size.';
    const head = ['', '1,000: CPU µs', ...catalogues.slice(1).map(({ name }) => name)];
    return { tables: [{ title: 'Cost by size', note, head, rows }] };
  },
};

function operationsOver(count: number): readonly Operation[] {
  const lastId = firstWrittenId + count - 1;
  const answered = (status: number, name: string, requests: readonly ApiRequest[]): Operation => ({
    name,
    requests,
    status,
  });
  return [
    answered(
      200,
      'one',
      upTo(lastId, (id) => `/v1/pets/${id}`),
    ),
    answered(200, 'list 20', [get('/v1/pets')]),
    answered(200, 'list 100', [get('/v1/pets?limit=100')]),
    answered(
      200,
      'page anywhere',
      upTo(lastId - 20, (id) => `/v1/pets?after=${id}`),
    ),
    answered(200, 'last page', [get(`/v1/pets?after=${lastId - 20}`)]),
    answered(200, 'by status', [get('/v1/pets?status=sold')]),
    answered(200, 'rarest status', [get('/v1/pets?status=pending')]),
    answered(
      404,
      '404',
      upTo(lastId, (id) => `/v1/pets/${id + count}`),
    ),
    reading.noKey,
    addingToFile,
  ];
}

/** Requests that are spread evenly over the ids from the first one to just below `end`. */
function upTo(end: number, path: (id: number) => string): readonly ApiRequest[] {
  const step = (end - firstWrittenId) / spots;
  return Array.from({ length: spots }, (_, spot) =>
    get(path(firstWrittenId + Math.floor(spot * step))),
  );
}
