/**
 * Fails when an operation has lost a factor against bare `node:http`: in half a minute, for every
 * commit. It takes the best of its rounds, and more rounds for what is still below, so that noise
 * alone does not fail it.
 */
import { fill } from './catalogue.js';
import { bare, petstore } from './contestants.js';
import { sample } from './figures.js';
import { clients, openLoad } from './load.js';
import { adding, reading } from './operations.js';
import { decimal, markdownTable } from './report.js';
import { sessionUntilEnd } from './session.js';

/**
 * The ratios to bare that were reached on 2 cores of an AMD EPYC, where the limit of `node:http` is
 * 1.3 to 1.6.
 */
const reached = [
  { operation: reading.one, ratio: 1.15 },
  { operation: reading.list20, ratio: 1.13 },
  { operation: reading.list100, ratio: 1.05 },
  { operation: reading.byStatus, ratio: 1.05 },
  { operation: reading.noKey, ratio: 1.2 },
  { operation: reading.notFound, ratio: 1.15 },
  { operation: adding, ratio: 1.0 },
];

/** Below this share of what was reached before an operation has collapsed. */
const collapse = 2 / 3;

const usualRounds = 2;
const mostRounds = 5;

await sessionUntilEnd(async (session) => {
  const load = openLoad(session.folder());
  const [reference, ours] = [await session.start(bare), await session.start(petstore('memory:'))];
  await fill(ours);
  const tries = reached.map((goal) => ({ ...goal, best: 0, rounds: 0 }));
  for (let round = 0; round < mostRounds; round++) {
    for (const one of tries.filter(
      ({ best, ratio }) => round < usualRounds || best < ratio * collapse,
    )) {
      const bareUs = (await sample(reference, one.operation, load, clients.sleeping)).cpuUs;
      const ownUs = (await sample(ours, one.operation, load, clients.sleeping)).cpuUs;
      one.best = Math.max(one.best, bareUs / ownUs);
      one.rounds++;
    }
  }
  const rows = tries.map(({ operation, ratio, best, rounds }) => [
    operation.name,
    decimal(best),
    decimal(ratio),
    decimal(ratio * collapse),
    String(rounds),
  ]);
  process.stdout.write(
    `${load.name}, ratio to bare node:http, best of the rounds\n\n${markdownTable(['', 'ratio', 'reached before', 'least', 'rounds'], rows)}\n\n`,
  );
  const collapsed = tries.filter(({ best, ratio }) => best < ratio * collapse);
  process.stdout.write(`${tries.length - collapsed.length} passed, ${collapsed.length} failed\n`);
  for (const { operation } of collapsed)
    process.stdout.write(
      `${operation.name} has collapsed: ask \`make bench PARTS=speed\` for the whole picture\n`,
    );
  if (collapsed.length > 0) process.exitCode = 1;
});
