/**
 * Runs the parts of the benchmark that its arguments name, all without any, prints what they
 * measured, and keeps it where FIGURES says so. SHORT tries the way alone.
 */
import { Conditions } from './conditions.js';
import { openLoad } from './load.js';
import type { Part } from './part.js';
import { keep, section, type Table } from './report.js';
import { inStretch } from './servers.js';
import { size } from './size.js';
import { before, speed } from './speed.js';
import { start } from './start.js';
import { storage } from './storage.js';

const parts: readonly Part[] = [speed, storage, start, size, before];

const { ROUNDS, SHORT } = process.env;
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !parts.some((part) => part.name === name));
if (unknown.length > 0)
  throw new RangeError(
    `no part ${unknown.join(', ')}; there are ${parts.map(({ name }) => name).join(', ')}`,
  );
const chosen = parts.filter(({ name, isExtra }) =>
  wanted.length === 0 ? isExtra === undefined : wanted.includes(name),
);

await inStretch(async (stretch) => {
  const load = openLoad(stretch);
  const conditions = new Conditions(load.name);
  const isShort = SHORT !== undefined;
  const rounds = isShort ? 1 : Number(ROUNDS ?? 3);
  const say = (what: string): void => void process.stderr.write(`… ${what}\n`);
  const tables: Table[] = [];
  for (const part of chosen) {
    const own = stretch.within();
    const measured = await part.measure({ stretch: own, load, rounds, isShort, say });
    await own.end();
    tables.push(...measured);
    process.stdout.write(`\n${measured.map(section).join('\n\n')}\n`);
  }
  const run = `bench of ${rounds} rounds: ${conditions.describe()}`;
  process.stdout.write(`\n${run}\n`);
  keep(run, tables);
});
