/** Owns the table of options: flags, environment variables, defaults, meanings (CONTRACT.md). Reads no value. */

/** One option of the process. */
export interface Option {
  /** With its dashes; absent where only the environment sets it. */
  readonly flag?: string;
  readonly env?: string;
  /** What stands for the value in the help; absent for a switch. */
  readonly value?: string;
  readonly default?: string;
  /** Whether the flag may come more than once, and the variable hold several with commas between. */
  readonly isList?: boolean;
  readonly about: string;
}

/** Every option, in the order of the help. */
export const options = {
  host: { flag: '--host', env: 'HOST', value: 'ADDRESS', default: '127.0.0.1', about: 'address to listen on' },
  port: { flag: '--port', env: 'PORT', value: 'PORT', default: '3000', about: 'port to listen on; 0 takes a free one' },
  storage: {
    flag: '--storage',
    env: 'PETSTORE_STORAGE',
    value: 'STORAGE',
    default: 'file:data/pets.jsonl',
    about: 'file:PATH, memory:, postgres://…',
  },
  apiKeys: { env: 'PETSTORE_API_KEYS', value: 'KEYS', isList: true, about: 'API keys, comma between' },
  keysFile: {
    flag: '--keys-file',
    env: 'PETSTORE_KEYS_FILE',
    value: 'FILE',
    about: 'keys made by `keys add`; data/keys.json where it exists',
  },
  plugin: {
    flag: '--plugin',
    env: 'PETSTORE_PLUGINS',
    value: 'PLUGIN',
    isList: true,
    about: 'see below; repeatable, the variable has commas between',
  },
  corsOrigin: {
    flag: '--cors-origin',
    env: 'PETSTORE_CORS_ORIGINS',
    value: 'ORIGIN',
    isList: true,
    about: 'whose pages may call: https://a.example; repeatable likewise',
  },
  maxBodyBytes: {
    flag: '--max-body-bytes',
    env: 'PETSTORE_MAX_BODY_BYTES',
    value: 'BYTES',
    default: '65536',
    about: 'longest request body',
  },
  baseUrl: { flag: '--base-url', env: 'PETSTORE_BASE_URL', value: 'URL', about: 'production address, for the OpenAPI document' },
  stagingBaseUrl: { flag: '--staging-base-url', env: 'PETSTORE_STAGING_BASE_URL', value: 'URL', about: 'staging address, for the same' },
  tlsCert: { flag: '--tls-cert', env: 'PETSTORE_TLS_CERT', value: 'FILE', about: 'certificate chain in PEM; with its key it serves HTTPS' },
  tlsKey: { flag: '--tls-key', env: 'PETSTORE_TLS_KEY', value: 'FILE', about: 'its private key in PEM' },
  log: {
    flag: '--log',
    env: 'PETSTORE_LOG',
    value: 'LEVEL',
    default: 'info',
    about: 'silent, info, or requests: a line for each too',
  },
  dev: { flag: '--dev', about: 'make data/dev-key and tables once; a curl line to try, and docs' },
  expires: { flag: '--expires', value: 'TIME', about: 'with `keys add`: how long it lives, such as 90d, 12h, 30m, 60s' },
  salvage: { flag: '--salvage', value: 'OUT', about: 'with `check`: save what is sound in a new file, list the rest' },
  from: { flag: '--from', value: 'STORAGE', about: 'with `copy`: the storage that is copied' },
  to: { flag: '--to', value: 'STORAGE', about: 'with `copy`: the storage that gets what it lacks of it' },
  help: { flag: '--help', about: 'print this' },
  version: { flag: '--version', about: 'print the version' },
} as const satisfies Readonly<Record<string, Option>>;

/** The name of an option. */
export type OptionName = keyof typeof options;

/** The name of an option that always has a value. */
export type OptionNameWithDefault = {
  [Name in OptionName]: (typeof options)[Name] extends { readonly default: string } ? Name : never;
}[OptionName];

/** The table with its names, for walking through. */
export const optionList: readonly (readonly [OptionName, Option])[] = Object.keys(options)
  .filter(isOptionName)
  .map((name) => [name, options[name]] as const);

function isOptionName(name: string): name is OptionName {
  return Object.hasOwn(options, name);
}
