/**
 * Runs the parts of the benchmark that its arguments name, all but “before” without any, prints
 * what they measured, and keeps it where FIGURES says so. SHORT tries the way alone.
 */
import { watchMachine } from './conditions.js';
import { openLoad } from './load.js';
import type { Part } from './part.js';
import { keep, section, type Table } from './report.js';
import { inStretch } from './servers.js';
import { sizePart } from './size.js';
import { beforePart, speedPart } from './speed.js';
import { startPart } from './start.js';
import { storagePart } from './storage.js';

const usual: Readonly<Record<string, Part>> = {
  speed: speedPart,
  storage: storagePart,
  start: startPart,
  size: sizePart,
};
const parts: typeof usual = { ...usual, before: beforePart };

const { ROUNDS = '3', SHORT } = process.env;
const isShort = SHORT !== undefined;
const rounds = isShort ? 1 : Number(ROUNDS);
const named = process.argv.slice(2);
const measurements = (named.length > 0 ? named : Object.keys(usual)).flatMap((name) => {
  const part = parts[name];
  if (part === undefined)
    throw new RangeError(`no part ${name}; there are ${Object.keys(parts).join(', ')}`);
  return part;
});

await inStretch(async (stretch) => {
  const load = openLoad(stretch);
  const conditions = watchMachine(load.name);
  const say = (what: string): void => void process.stderr.write(`… ${what}\n`);
  const tables: Table[] = [];
  for (const measure of measurements) {
    const own = stretch.within();
    const measured = [await measure({ stretch: own, load, rounds, isShort, say })].flat();
    await own.end();
    tables.push(...measured);
    process.stdout.write(`\n${measured.map(section).join('\n\n')}\n`);
  }
  const run = `bench of ${rounds} rounds: ${conditions()}`;
  process.stdout.write(`\n${run}\n`);
  keep(run, tables);
});
