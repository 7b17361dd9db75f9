/**
 * Fails when an operation has lost a factor against bare `node:http`: in half a minute, for every
 * commit. It takes the best of its rounds, and more rounds for what is still below, so that noise
 * alone does not fail it.
 */
import { bare, petstore } from './contestants.js';
import { sample } from './figures.js';
import { askers, openLoad } from './load.js';
import { adding, reading } from './operations.js';
import { decimal, markdownTable } from './report.js';
import { fill, inStretch, startContestant } from './servers.js';

/**
 * The ratios to bare that were reached on 2 cores of an AMD EPYC, where the limit of `node:http` is
 * 1.3 to 1.6.
 */
const reached = [
  [reading.one, 1.15],
  [reading.list20, 1.13],
  [reading.list100, 1.05],
  [reading.byStatus, 1.05],
  [reading.noKey, 1.2],
  [reading.notFound, 1.15],
  [adding, 1.0],
] as const;

/** Below this share of what was reached before an operation has collapsed. */
const collapse = 2 / 3;

const usualRounds = 2;
const mostRounds = 5;

await inStretch(async (stretch) => {
  const load = openLoad(stretch);
  const reference = await startContestant(stretch, bare);
  const ours = await startContestant(stretch, petstore('memory:'));
  await fill(ours);
  const tries = reached.map(([operation, ratio]) => ({
    operation,
    ratio,
    least: ratio * collapse,
    best: 0,
    rounds: 0,
  }));
  for (let round = 0; round < mostRounds; round++) {
    for (const one of tries.filter(({ best, least }) => round < usualRounds || best < least)) {
      const usOf = async (server: typeof ours): Promise<number> =>
        (await sample({ server, operation: one.operation }, askers.sleeping, { load })).cpuUs;
      one.best = Math.max(one.best, (await usOf(reference)) / (await usOf(ours)));
      one.rounds++;
    }
  }
  const rows = tries.map(({ operation, ratio, least, best, rounds }) => [
    operation.name,
    ...[best, ratio, least].map((each) => decimal(each)),
    String(rounds),
  ]);
  process.stdout.write(
    `${load.name}, ratio to bare node:http, best of the rounds\n\n${markdownTable(['', 'ratio', 'reached before', 'least', 'rounds'], rows)}\n\n`,
  );
  const collapsed = tries.filter(({ best, least }) => best < least);
  process.stdout.write(`${tries.length - collapsed.length} passed, ${collapsed.length} failed\n`);
  for (const { operation } of collapsed)
    process.stdout.write(
      `${operation.name} has collapsed: ask \`make bench PARTS=speed\` for the whole picture\n`,
    );
  if (collapsed.length > 0) process.exitCode = 1;
});
