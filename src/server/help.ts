/** Owns the text of `--help`, made from the table of options so that it cannot forget one. */
import { optionList } from './options.js';
import { shippedPlugins } from './shipped-plugins.js';

/** The help, to be printed as it is. */
export function helpText(): string {
  const rows = optionList.map(([, { flag = '', env = '', value, about, ...option }]) => {
    const name = flag === '' || value === undefined ? flag : `${flag} ${value}`;
    const standard = option.default === undefined ? '' : ` (default ${option.default})`;
    return `  ${name.padEnd(25)} ${env.padEnd(27)} ${about}${standard}`;
  });
  const plugins = [...shippedPlugins].map(
    ([name, { about, library }]) => `  ${name.padEnd(9)} ${about}${library === undefined ? '' : `; npm install ${library}`}`,
  );
  return `${before}\n${rows.join('\n')}\n${pluginsBefore}\n${plugins.join('\n')}\n${after}`;
}

const before = `Petstore: a server of animals over HTTP and JSON.

Usage: node dist/server.js [options]
       node dist/server.js keys add NAME [--expires TIME] | keys list | keys revoke NAME
       node dist/server.js import FILE [--storage STORAGE]
       node dist/server.js migrate --storage postgres://…
       node dist/server.js copy --from STORAGE --to STORAGE
       node dist/server.js check FILE [--salvage OUT]

Without a command it serves. It needs at least one API key.

Commands:
  keys add NAME     make a key, print it once, keep its digest in the keys file
  keys list         list names, when made, when they expire
  keys revoke NAME  take a key out; a running server follows within 2 seconds
  import FILE       add animals from JSON Lines, every line checked before the first is stored
  migrate           make the tables of a database, or bring them up to date
  copy              copy all animals, and orders, with their ids, and compare; run again, it goes on where it was
  check FILE        say what a storage file holds, and whether a server would start on it

Options and their environment variables; a flag beats the environment, which beats the default:`;

const pluginsBefore = `
Plugins: a path that starts with ./ or /, a package, or one of these, which come with the server:`;

const after = `
Exit codes: 0 fine; 2 a bad option, key or file; 3 a storage that cannot be used; 70 a fault of ours; 1 it could not
close in time. SIGTERM and SIGINT finish the requests under way; SIGHUP reads the keys file again.

Examples:
  node dist/server.js --dev
  node dist/server.js keys add alice --expires 90d && node dist/server.js --port 8080
  PETSTORE_API_KEYS=secret node dist/server.js --storage memory: --log requests
  node dist/server.js import data/animals.jsonl --storage file:/srv/pets.jsonl
`;
