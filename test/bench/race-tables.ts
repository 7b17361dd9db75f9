/** How the figures of a race are shown. */
import { svgOf } from './chart.js';
import { bun, fastify, limit, petstore } from './contestants.js';
import type { Picture, Table } from './part.js';
import type { Race, RaceRow } from './race.js';
import { decimal, none, whole } from './words.js';

const ours = petstore('memory:').name;
const rivals = [limit.name, fastify.name, bun.name];

/** Processor time by request, as a ratio to bare: a row for each operation. */
export function ratiosTable(
  { entry: { client, goals }, names, selfCheck, rows }: Race,
  against: readonly string[] = rivals,
): Table {
  const [least, most] = selfCheck.ratioRange;
  const wanted = ({ operation }: RaceRow): number | undefined =>
    goals.find((goal) => goal.operation === operation)?.ratio;
  return {
    title: `Ratio to bare, ${client.name}`,
    note:
      "Bare's processor time for each request by the server's own; above 1 is better; medians of all rounds. " +
      `Self-check: bare against itself ${decimal(selfCheck.ratio)} (rounds ${decimal(least)} to ${decimal(most)}).`,
    head: [
      '',
      ours,
      'wanted',
      ...names.filter((name) => name !== ours),
      ...against.map((name) => `${ours} by ${name}`),
    ],
    rows: rows.map((row) => {
      const ratio = (name: string): number | undefined => row.figures.get(name)?.ratio;
      const peers = names.filter((name) => name !== ours).map((name) => show(ratio(name)));
      return [
        row.operation.name,
        show(ratio(ours)),
        show(wanted(row)),
        ...peers,
        ...against.map((name) => quotient(ratio(ours), ratio(name))),
      ];
    }),
  };
}

/** All that was measured: a row for each operation and server. */
export function figuresTable({ entry: { client }, rows }: Race): Table {
  return {
    title: `All figures, ${client.name}`,
    head: ['', 'server', 'requests/s', 'CPU µs/request', 'p50 ms', 'p99 ms', 'ratio', 'rounds'],
    rows: rows.flatMap(({ operation, figures }) =>
      [...figures].map(([name, { requestsPerSecond, cpuUs, p50Ms, p99Ms, ratio, ratioRange }]) => {
        const rounds = ratioRange.map((end) => decimal(end)).join(' to ');
        return [
          operation.name,
          name,
          whole(requestsPerSecond),
          decimal(cpuUs, 1),
          decimal(p50Ms),
          decimal(p99Ms),
          decimal(ratio),
          rounds,
        ];
      }),
    ),
  };
}

/** The ratios of a race as bars. */
export function chartOf({ entry: { client }, names, rows }: Race): Picture {
  const svg = svgOf({
    title: 'Requests for the same processor time, bare node:http = 1',
    subtitle: `${client.name}, 1,000 animals, medians; longer is better. Node ${process.versions.node}, ${new Date().toISOString().slice(0, 10)}`,
    series: names,
    groups: rows.map(({ operation, figures }) => ({
      name: operation.name,
      values: names.map((name) => figures.get(name)?.ratio),
    })),
  });
  return { name: 'speed', svg };
}

function show(ratio: number | undefined): string {
  return ratio === undefined ? none : decimal(ratio);
}

function quotient(own: number | undefined, other: number | undefined): string {
  return show(own === undefined || other === undefined ? undefined : own / other);
}
