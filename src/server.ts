#!/usr/bin/env node
/** Owns the process: which command runs, and how its failure is told: one line, and 2 or 3, or 70 for our own fault. Knows no command's inside. */
import { readFileSync } from 'node:fs';
import { PetstoreError } from './index.js';
import { readCommandLine } from './server/command-line.js';
import { helpText } from './server/help.js';
import { options, type Option, type OptionName } from './server/options.js';
import { print } from './server/print.js';
import { printable } from './server/printable.js';
import { Refusal } from './server/refusal.js';
import { Settings } from './server/settings.js';
import { suggestion } from './server/suggestion.js';

/** Runs a command; answers its exit code, undefined where it goes on. */
type Run = (operands: readonly string[], settings: Settings) => Promise<number | undefined>;

interface Command {
  /** The options that it takes, besides help and version. */
  readonly options: readonly OptionName[];
  /** Imports it, so that a start doesn't pay for the others. */
  readonly load: () => Promise<Run>;
}

const startOptions: readonly OptionName[] = [
  'host',
  'port',
  'storage',
  'keysFile',
  'plugin',
  'corsOrigin',
  'maxBodyBytes',
  'baseUrl',
  'stagingBaseUrl',
  'tlsCert',
  'tlsKey',
  'log',
  'dev',
];
const start: Command = { options: startOptions, load: async () => (await import('./commands/start.js')).start };
const commands: ReadonlyMap<string, Command> = new Map([
  ['keys', { options: ['keysFile', 'expires'], load: async () => (await import('./commands/keys.js')).keys }],
  ['import', { options: ['storage'], load: async () => (await import('./commands/import.js')).importAnimals }],
  ['copy', { options: ['from', 'to'], load: async () => (await import('./commands/copy.js')).copy }],
  ['migrate', { options: ['storage'], load: async () => (await import('./commands/migrate.js')).migrate }],
  ['check', { options: ['salvage'], load: async () => (await import('./commands/check.js')).check }],
]);

async function main(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number | undefined> {
  const { operands, given } = readCommandLine(args);
  if (given.has('help')) return answer(helpText());
  if (given.has('version')) return answer(`${version()}\n`);
  const [name, ...rest] = operands;
  const command = name === undefined ? start : commands.get(name);
  if (command === undefined) throw new Refusal(`unknown command ${name}${suggestion(name ?? '', [...commands.keys()])}`);
  for (const option of given.keys()) {
    const { flag }: Option = options[option];
    if (!command.options.includes(option)) throw new Refusal(`flag ${flag} is not for ${name ?? 'a start'}; leave it out`);
  }
  const run = await command.load();
  return run(rest, new Settings(given, environment));
}

async function answer(text: string): Promise<number> {
  await print(text);
  return 0;
}

/** The version in package.json, which is beside the folder of this file. */
function version(): string {
  const { version }: { readonly version: string } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  return version;
}

function tell(error: unknown): number {
  const isForOperator = error instanceof Refusal || error instanceof PetstoreError;
  // What else is thrown is a fault of ours: all of it must be seen.
  process.stderr.write(isForOperator ? `${printable(error.message)}\n` : `${error instanceof Error ? error.stack : String(error)}\n`);
  return error instanceof Refusal ? 2 : error instanceof PetstoreError ? 3 : 70;
}

// Whoever reads our output may go away at any time; the server goes on, and a command hears of it where it prints.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

main(process.argv.slice(2), process.env).then(
  (code) => (process.exitCode = code),
  // At once, for a plugin's timers may be running already.
  (error: unknown) => process.exit(tell(error)),
);
