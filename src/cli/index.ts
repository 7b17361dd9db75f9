/**
 * Runs the command line, and says why it failed. Other folders may import nothing else of this one.
 */
import { createRequire } from 'node:module';
import { detailOf, PetstoreError } from '../index.js';
import { print, printable, program, Refusal } from './output.js';
import { optionsHelp, serverOptions, Settings, suggestion, type OptionName } from './settings.js';

/**
 * The options of a command, and its function; the module is imported only when it runs: a server
 * starts faster so.
 */
type Command = readonly [
  options: readonly OptionName[],
  load: () => Promise<(settings: Settings, operands: readonly string[]) => Promise<void>>,
];

const start: Command = [serverOptions, async () => (await import('./start.js')).start];
const commands: Readonly<Record<string, Command>> = {
  keys: [['--keys-file', '--expires'], async () => (await import('./keys.js')).keys],
  import: [['--storage', '--after'], async () => (await import('./import.js')).importAnimals],
  copy: [['--from', '--to'], async () => (await import('./storages.js')).copy],
  migrate: [['--storage'], async () => (await import('./storages.js')).migrate],
  check: [['--salvage'], async () => (await import('./check.js')).check],
};

/**
 * Runs what the arguments of the process ask for; where that fails it prints the reason and exits.
 */
export async function main(): Promise<void> {
  // The reader of a pipe may be gone: that ends no server, and `print` sees to the result of a
  // command.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  try {
    await run(new Settings(process.argv.slice(2)));
  } catch (error) {
    const isForOperator = error instanceof Refusal || error instanceof PetstoreError;
    process.stderr.write(`${isForOperator ? printable(error.message) : detailOf(error)}\n`);
    // At once: a plugin may have started timers.
    process.exit(error instanceof Refusal ? 2 : error instanceof PetstoreError ? 3 : 70);
  }
}

async function run(settings: Settings): Promise<void> {
  const [name, ...operands] = settings.operands;
  if (settings.find('--version')) {
    const { version }: { readonly version: string } = createRequire(import.meta.url)(
      '../../package.json',
    );
    return print([version]);
  }
  if (settings.find('--help') || name === 'help') return print(await help());
  const command =
    name === undefined ? start : Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined)
    throw new Refusal(
      `unknown command ${name}${suggestion(name ?? '', [...Object.keys(commands), 'help'])}`,
    );
  const [options, load] = command;
  settings.refuseOthers(options, name ?? 'a start');
  // `server.ts` took SIGHUP over for a start; any other command ends with its terminal.
  if (command !== start) process.removeAllListeners('SIGHUP');
  return (await load())(settings, operands);
}

async function help(): Promise<readonly string[]> {
  const { pluginsHelp } = await import('./plugins.js');
  return `Petstore: a server of animals over HTTP and JSON.

Usage: ${program} [options], or one of these commands in front of them

  keys add NAME [--expires TIME]    make a key, print it once, keep its digest in the keys file
  keys list                         list names, when made, when they expire
  keys revoke NAME                  take a key out; a running server follows within 2 seconds
  import FILE [--after LINE]        add animals from JSON Lines, all checked first; - is standard input
  copy --from STORAGE --to STORAGE  copy all with their ids, and compare; run again, it goes on
  migrate --storage postgres://…    make the tables of a database, or bring them up to date
  check FILE [--salvage OUT]        say what a storage file holds, and whether a server would start on it

Without a command it serves. It needs at least one API key.

Options and their environment variables; a flag beats the environment, which beats the default:
${optionsHelp().join('\n')}

Plugins: a path that starts with ./ or /, a package, or one of these, which come with the server:
${pluginsHelp().join('\n')}

Exit codes: 0 fine; 1 not closed in time; 2 a bad option, key or file; 3 no usable storage; 70 a fault of ours.
SIGTERM and SIGINT finish the requests under way; SIGHUP reads the keys file and the TLS files again.

Examples:
  ${program} --dev
  ${program} keys add alice --expires 90d && ${program} --port 8080
  ${program} import data/animals.jsonl --storage file:/srv/pets.jsonl`.split('\n');
}
