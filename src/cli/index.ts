/**
 * Runs the command line, and says why it failed. Other folders may import nothing else of this one.
 */
import { createRequire } from 'node:module';
import { detailOf, PetstoreError } from '../index.js';
import { print, printable, program, Refusal, refuse } from './output.js';
import { pluginsHelp } from './plugins.js';
import {
  optionsHelp,
  serverOptions,
  Settings,
  suggestion,
  type OptionName,
  type Run,
} from './settings.js';

/** A command of the command line. */
interface Command {
  /** The options that it takes; any other flag is refused. */
  readonly options: readonly OptionName[];
  /** Imports its module, only when the command runs: a server starts faster so. */
  readonly load: () => Promise<{ readonly run: Run }>;
}

/** What runs without the name of a command. */
const start: Command = { options: serverOptions, load: () => import('./start.js') };

const commands = new Map(
  Object.entries<Command>({
    keys: { options: ['--keys-file', '--expires'], load: () => import('./keys.js') },
    import: { options: ['--storage', '--after'], load: () => import('./import.js') },
    copy: { options: ['--from', '--to'], load: () => import('./copy.js') },
    migrate: { options: ['--storage'], load: () => import('./migrate.js') },
    check: { options: ['--salvage'], load: () => import('./check.js') },
  }),
);

/**
 * Runs the command line of this process. Where that fails it prints the reason and exits by 2 for a
 * Refusal, 3 for an error of a storage, and 70 for a fault of ours.
 */
export async function main(): Promise<void> {
  // The reader of a pipe may be gone. That must not end a server, and `print` sees to the result of
  // a command.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);

  try {
    await runCommand(new Settings(process.argv.slice(2)));
  } catch (error) {
    const isForOperator = error instanceof Refusal || error instanceof PetstoreError;
    process.stderr.write(`${isForOperator ? printable(error.message) : detailOf(error)}\n`);
    // A plugin may have started timers, which would keep the process alive.
    process.exit(error instanceof Refusal ? 2 : error instanceof PetstoreError ? 3 : 70);
  }
}

async function runCommand(settings: Settings): Promise<void> {
  const [name, ...operands] = settings.operands;

  if (settings.find('--version')) {
    const { version }: { readonly version: string } = createRequire(import.meta.url)(
      '../../package.json',
    );
    return print([version]);
  }

  if (settings.find('--help') || name === 'help') return print(help());

  const command = name === undefined ? start : commands.get(name);
  if (command === undefined)
    refuse(`unknown command ${name}${suggestion(name ?? '', [...commands.keys(), 'help'])}`);
  settings.refuseOthers(command.options, name ?? 'a start');

  // `server.ts` keeps SIGHUP from ending a process that starts; a command ends with its terminal.
  if (command !== start) process.removeAllListeners('SIGHUP');

  const module = await command.load();
  return module.run(settings, operands);
}

/** The lines of the help. */
function help(): readonly string[] {
  const importing = 'add animals from JSON Lines, all checked first; - is standard input';
  const checking = 'say what a storage file holds, and whether a server would start on it';
  const refusals = '2 a bad option, key or file; 3 no usable storage';
  const ending = 'SIGTERM and SIGINT finish the requests under way';

  return `Petstore: a server of animals over HTTP and JSON.

Usage: ${program} [options], or one of these commands in front of them

  keys add NAME [--expires TIME]    make a key, print it once, keep its digest in the keys file
  keys list                         list names, when made, when they expire
  keys revoke NAME                  take a key out; a running server follows within 2 seconds
  import FILE [--after LINE]        ${importing}
  copy --from STORAGE --to STORAGE  copy all with their ids, and compare; run again, it goes on
  migrate --storage postgres://…    make the tables of a database, or bring them up to date
  check FILE [--salvage OUT]        ${checking}

Without a command it serves. It needs at least one API key.

Options and their environment variables; a flag beats the environment, which beats the default:
${optionsHelp().join('\n')}

Plugins: a path that starts with ./ or /, a package, or one of these, which come with the server:
${pluginsHelp().join('\n')}

Exit codes: 0 fine; 1 not closed in time; ${refusals}; 70 a fault of ours.
${ending}; SIGHUP reads the keys file and the TLS files again.

Examples:
  ${program} --dev
  ${program} keys add alice --expires 90d && ${program} --port 8080
  ${program} import data/animals.jsonl --storage file:/srv/pets.jsonl`.split('\n');
}
