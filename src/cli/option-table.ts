/** The table of options, from which the command line is parsed and the help is made. */
import type { TextKind } from './setting-text.js';

/** The commands. A command line without a command is that of `serve`. */
export const commandNames = [
  'serve',
  'keys',
  'import',
  'copy',
  'migrate',
  'check',
  'verify',
] as const;

/** The name of a command. */
export type CommandName = (typeof commandNames)[number];

/** An option of the process. */
interface Option {
  /** The commands that accept the option, and whose help describes it. */
  readonly of: readonly [CommandName, ...CommandName[]];
  /** True if the main help describes the option too. */
  readonly isCommon?: true;
  /** The environment variable; omitted for an option of a command. */
  readonly variable?: string;
  /** The placeholder for the value in the help; omitted for a switch. */
  readonly value?: string;
  /** The description in the help. */
  readonly about: string;
  /** The default value that the help shows. */
  readonly fallback?: string;
  /** True if the flag is repeatable. */
  readonly isRepeatable?: true;
  /** The kind of free text; omitted if the value has an exact form. */
  readonly holds?: TextKind;
  /** The row of the flag for commands to which it means something else. */
  readonly otherwise?: Option;
}

/** Every option by its flag, in the order of the help. The API keys have only a variable. */
const options = {
  '--host': {
    of: ['serve'],
    variable: 'HOST',
    value: 'ADDRESS',
    about: 'address to listen on',
    fallback: '127.0.0.1',
  },
  '--port': {
    isCommon: true,
    of: ['serve'],
    variable: 'PORT',
    value: 'PORT',
    about: 'port to listen on; 0 takes a free one',
    fallback: '3000',
  },

  '--storage': {
    isCommon: true,
    of: ['serve', 'import', 'migrate'],
    variable: 'PETSTORE_STORAGE',
    value: 'STORAGE',
    about: 'file:PATH, memory:, postgres://…',
    fallback: 'file:data/pets.jsonl',
    holds: 'storage',
  },
  '--seed': {
    of: ['serve', 'verify'],
    variable: 'PETSTORE_SEED',
    value: 'FILE',
    about: 'JSON Lines with the pets of an empty storage',
    holds: 'path',
    otherwise: { of: ['verify'], value: 'NUMBER', about: 'repeat the stories of this seed' },
  },
  '--clock': {
    of: ['serve'],
    variable: 'PETSTORE_CLOCK',
    value: 'TIME',
    about: 'time at which the clock starts; only with memory:',
  },

  '--isolate': {
    of: ['serve'],
    about: 'a store, rules and clock for each API key; only with memory:',
  },
  '--journal-size': {
    of: ['serve'],
    variable: 'PETSTORE_JOURNAL_SIZE',
    value: 'COUNT',
    about: 'requests that the plugin faults keeps for /v1/requests, up to 10000',
    fallback: '1000',
  },

  PETSTORE_API_KEYS: {
    of: ['serve'],
    variable: 'PETSTORE_API_KEYS',
    about: 'API keys, separated by commas',
    holds: 'key',
  },
  '--keys-file': {
    isCommon: true,
    of: ['serve', 'keys'],
    variable: 'PETSTORE_KEYS_FILE',
    value: 'FILE',
    about: 'made by `keys add`; data/keys.json if it exists',
    holds: 'path',
  },

  '--plugin': {
    isCommon: true,
    of: ['serve'],
    variable: 'PETSTORE_PLUGINS',
    value: 'PLUGIN',
    about: 'plugin to load, repeatable',
    isRepeatable: true,
    holds: 'plugin',
  },
  '--cors-origin': {
    of: ['serve'],
    variable: 'PETSTORE_CORS_ORIGINS',
    value: 'ORIGIN',
    about: 'origin whose pages may call the API, repeatable',
    isRepeatable: true,
    holds: 'text',
  },

  '--max-body-bytes': {
    of: ['serve'],
    variable: 'PETSTORE_MAX_BODY_BYTES',
    value: 'BYTES',
    about: 'longest request body',
    fallback: '65536',
  },
  '--drain': {
    of: ['serve'],
    variable: 'PETSTORE_DRAIN',
    value: 'SECONDS',
    about: 'keep serving for SECONDS after SIGTERM, with /readyz at 503',
    fallback: '0',
  },
  '--keep-alive': {
    of: ['serve'],
    variable: 'PETSTORE_KEEP_ALIVE',
    value: 'SECONDS',
    about: 'close a connection after it was idle for SECONDS',
    fallback: '72',
  },

  '--node-interface': {
    of: ['serve'],
    variable: 'PETSTORE_NODE_INTERFACE',
    value: 'NAME',
    about: "auto, check (this Node first), or documented (only Node's documented interface)",
    fallback: 'auto',
  },

  '--base-url': {
    of: ['serve'],
    variable: 'PETSTORE_BASE_URL',
    value: 'URL',
    about: 'public base URL; its path prefixes links',
    holds: 'text',
  },
  '--staging-base-url': {
    of: ['serve'],
    variable: 'PETSTORE_STAGING_BASE_URL',
    value: 'URL',
    about: 'public base URL in staging, for OpenAPI',
    holds: 'text',
  },

  '--tls-cert': {
    of: ['serve'],
    variable: 'PETSTORE_TLS_CERT',
    value: 'FILE',
    about: 'certificate chain in PEM, to serve HTTPS',
    holds: 'path',
  },
  '--tls-key': {
    of: ['serve'],
    variable: 'PETSTORE_TLS_KEY',
    value: 'FILE',
    about: 'private key of the certificate in PEM',
    holds: 'path',
  },

  '--log': {
    of: ['serve'],
    variable: 'PETSTORE_LOG',
    value: 'LEVEL',
    about: 'silent, info or requests',
    fallback: 'info',
  },
  '--log-format': {
    of: ['serve'],
    variable: 'PETSTORE_LOG_FORMAT',
    value: 'FORMAT',
    about: 'text (default on a terminal) or json',
  },

  '--dev': {
    isCommon: true,
    of: ['serve'],
    about: 'try it out: make data/dev-key, print a curl command, serve /docs',
  },

  '--json': { of: ['keys'], about: '`keys list` as a JSON array, with exact times' },
  '--expires': { of: ['keys'], value: 'TIME', about: 'lifetime, such as 90d, 12h, 30m, 60s' },
  '--after': {
    of: ['import'],
    value: 'LINE',
    about: 'skip the lines up to this one',
    fallback: '0',
  },
  '--salvage': {
    of: ['check'],
    value: 'OUT',
    about: 'save what is sound to a new file',
    holds: 'path',
  },
  '--from': {
    of: ['copy'],
    variable: 'PETSTORE_FROM',
    value: 'STORAGE',
    about: 'storage to copy from',
    holds: 'storage',
  },
  '--to': {
    of: ['copy'],
    variable: 'PETSTORE_TO',
    value: 'STORAGE',
    about: 'storage to copy to',
    holds: 'storage',
  },

  '--print': { of: ['migrate'], about: 'print the SQL for a database administrator' },

  '--key': {
    of: ['verify'],
    variable: 'PETSTORE_KEY',
    value: 'KEY',
    about: 'API key of the server; `ps` shows a flag',
    holds: 'key',
  },
  '--key-file': { of: ['verify'], value: 'FILE', about: 'file with the API key', holds: 'path' },
  '--category': {
    of: ['verify'],
    value: 'N',
    about: 'category of the pets that are added',
    fallback: '5',
  },
  '--level': {
    of: ['verify'],
    value: 'LEVEL',
    about: 'specification, http or full',
    fallback: 'full',
  },
  '--slow': { of: ['verify'], about: 'also try the deadlines (half a minute)' },
  '--format': {
    of: ['verify'],
    value: 'FORMAT',
    about: 'text, json, junit or markdown',
    fallback: 'text',
  },
  '--only': { of: ['verify'], value: 'RULES', about: 'only these rules, such as C7,S1' },
  '--list': { of: ['verify'], about: 'print the rules, and where each is written' },
  '--timeout': { of: ['verify'], value: 'SECONDS', about: 'time for one response', fallback: '10' },
  '--stories': {
    of: ['verify'],
    value: 'N',
    about: 'stories to try; 20 if omitted',
  },
  '--thorough': { of: ['verify'], about: 'try 200 stories' },
  '--allow-untried': { of: ['verify'], about: 'exit with 0 if rules were not tried' },

  '--help': { of: commandNames, about: 'print the help of the command; also -h' },
  '--version': {
    of: commandNames,
    about: 'print the version, the Node and the mode of the server; also -v',
  },
} as const satisfies Readonly<Record<string, Option>>;

/** The name of an option: its flag, or its variable if it has no flag. */
export type OptionName = keyof typeof options;

/** True if the text is the name of an option. */
export const isOption = (text: string): text is OptionName => Object.hasOwn(options, text);
/** Returns the row of an option, or its other row for a command that has one. */
export function optionOf(name: OptionName, command?: CommandName): Option {
  const row: Option = options[name];
  return row.otherwise?.of.some((each) => each === command) ? row.otherwise : row;
}
/** The names of all options, in the order of the help. */
export const optionNames = Object.keys(options).filter(isOption);
/** True for a flag, false for the name of a variable. */
export const isFlag = (name: string) => name.startsWith('--');
/** The flags of one letter. */
export const shortNames: Readonly<Record<string, OptionName>> = {
  '-h': '--help',
  '-v': '--version',
};

/** Returns the names of the options of a command. */
export const optionsOf = (command: CommandName) =>
  optionNames.filter((name) => optionOf(name).of.includes(command));

/** The environment variables of all options. */
export const variableNames: readonly string[] = optionNames.flatMap(
  (name) => optionOf(name).variable ?? [],
);
