/** How fast each operation is, against bare `node:http` and the peers (issue 4, items 1 and 2). */
import { bun, fastify, limit, peers, petstoreBefore } from './contestants.js';
import { goals, neverSleepingGoals, oneConnectionGoals } from './goals.js';
import { clients } from './load.js';
import { reading } from './operations.js';
import type { Part } from './part.js';
import { race, type Entry } from './race.js';
import { chartOf, figuresTable, ratiosTable } from './race-tables.js';

const { one, list20, list100, byStatus, noKey, notFound } = reading;

/** The main figures: every operation, every peer. */
export const speed: Part = {
  name: 'speed',
  title: 'Speed of each operation',
  measure: async (bench) => {
    const result = await race(bench, {
      client: clients.sleeping,
      peers: [limit, ...peers],
      reading: Object.values(reading),
      goals,
    });
    return { tables: [ratiosTable(result), figuresTable(result)], pictures: [chartOf(result)] };
  },
};

export const oneConnection = against('one-connection', {
  client: clients.alone,
  goals: oneConnectionGoals,
});
export const neverSleeping = against('never-sleeping', {
  client: clients.neverSleeping,
  goals: neverSleepingGoals,
});
export const pausing: Part = {
  ...against('pausing', { client: clients.pausing, goals }),
  isExtra: true,
};

/** This checkout against another's, which BEFORE names: what a change costs. */
export const before: Part = {
  name: 'before',
  title: 'Speed before and after',
  isExtra: true,
  measure: async (bench) => {
    const other = petstoreBefore('memory:');
    if (other === undefined)
      return { tables: [], missing: 'BEFORE=FOLDER names a checkout that is built' };
    const entry = {
      client: clients.sleeping,
      peers: [other],
      reading: Object.values(reading),
      goals: [],
    };
    const result = await race(bench, { ...entry, withBefore: true });
    return { tables: [ratiosTable(result, [other.name]), figuresTable(result)] };
  },
};

/** Another client, against those that matter most, in the operations that the issue names. */
function against(name: string, { client, goals: wanted }: Pick<Entry, 'client' | 'goals'>): Part {
  return {
    name,
    title: `Speed with ${client.name}`,
    measure: async (bench) => {
      if (!bench.load.can(client))
        return {
          tables: [],
          missing: `${bench.load.name} cannot be such a client here (never sleeping needs wrk and cc)`,
        };
      const entry = {
        client,
        peers: [limit, fastify, bun],
        reading: [one, list20, list100, byStatus, noKey, notFound],
        goals: wanted,
      };
      const result = await race(bench, entry);
      return { tables: [ratiosTable(result), figuresTable(result)] };
    },
  };
}
