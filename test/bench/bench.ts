/**
 * Runs the parts of the benchmark that its arguments name, all without any; prints and keeps what
 * they measured.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { coldStart } from './cold-start.js';
import { Conditions } from './conditions.js';
import { durable } from './durable.js';
import { footprint } from './footprint.js';
import { growth } from './growth.js';
import { leak } from './leak.js';
import { openLoad, type Load } from './load.js';
import type { Part } from './part.js';
import { reportOf } from './report.js';
import { Session } from './session.js';
import { before, neverSleeping, oneConnection, pausing, speed } from './speed.js';
import { start } from './start.js';

const parts: readonly Part[] = [
  speed,
  oneConnection,
  neverSleeping,
  pausing,
  before,
  durable,
  growth,
  start,
  coldStart,
  footprint,
  leak,
];
const results = fileURLToPath(new URL('results', import.meta.url));
const usualRounds = 3;

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !parts.some((part) => part.name === name));
if (unknown.length > 0)
  throw new RangeError(
    `no part ${unknown.join(', ')}; there are ${parts.map(({ name }) => name).join(', ')}`,
  );
const chosen = parts.filter(({ name, isExtra }) =>
  wanted.length === 0 ? isExtra === undefined : wanted.includes(name),
);
const rounds = Number(process.env['ROUNDS'] ?? usualRounds);

const session = new Session();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void session.end().then(() => process.exit(130)));

try {
  const load = openLoad(session.folder());
  mkdirSync(results, { recursive: true });
  for (const part of chosen) process.stdout.write(`\n${await run(part, load)}`);
} finally {
  await session.end();
}

/** Measures one part; keeps its report, which it answers, and its pictures. */
async function run(part: Part, load: Load): Promise<string> {
  const conditions = new Conditions();
  const startedAt = performance.now();
  const own = session.within();
  const measured = await part.measure({ session: own, load, rounds, say });
  await own.end();
  const minutes = (performance.now() - startedAt) / 60_000;
  const command = `make bench PARTS=${part.name}${rounds === usualRounds ? '' : ` ROUNDS=${rounds}`}`;
  const report = reportOf(part.title, measured, {
    command,
    minutes,
    conditions: conditions.describe(load.name),
  });
  writeFileSync(join(results, `${part.name}.md`), report);
  for (const { name, svg } of measured.pictures ?? [])
    writeFileSync(join(results, `${name}.svg`), svg);
  return report;
}

/** Says what is being done, beside the report. */
function say(what: string): void {
  process.stderr.write(`… ${what}\n`);
}
