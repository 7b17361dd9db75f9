/**
 * The options of the process: which there are, and their values, or a refusal that names source and
 * rule.
 */
import { readFileSync } from 'node:fs';
import { orRefuse, Refusal } from './output.js';

/**
 * In the order of the help: variable (options of a start alone have one), word for the value,
 * meaning, default.
 */
const table = {
  '--host': ['HOST', 'ADDRESS', 'address to listen on', '127.0.0.1'],
  '--port': ['PORT', 'PORT', 'port to listen on; 0 takes a free one', '3000'],
  '--storage': [
    'PETSTORE_STORAGE',
    'STORAGE',
    'file:PATH, memory:, postgres://…',
    'file:data/pets.jsonl',
  ],
  '--seed': [
    'PETSTORE_SEED',
    'FILE',
    'animals of JSON Lines that an empty storage begins with',
    '',
  ],
  '--clock': ['PETSTORE_CLOCK', 'TIME', 'with memory: alone: the time that it is at the start', ''],
  PETSTORE_API_KEYS: ['PETSTORE_API_KEYS', 'KEYS', 'API keys, comma between', ''],
  '--keys-file': [
    'PETSTORE_KEYS_FILE',
    'FILE',
    'made by `keys add`; data/keys.json where it exists',
    '',
  ],
  '--plugin': ['PETSTORE_PLUGINS', 'PLUGIN', 'see below; repeatable; commas in the variable', ''],
  '--cors-origin': [
    'PETSTORE_CORS_ORIGINS',
    'ORIGIN',
    'whose pages may call; repeatable likewise',
    '',
  ],
  '--max-body-bytes': ['PETSTORE_MAX_BODY_BYTES', 'BYTES', 'longest request body', '65536'],
  '--drain': [
    'PETSTORE_DRAIN',
    'SECONDS',
    'go on serving so long after SIGTERM, /readyz at 503',
    '0',
  ],
  '--base-url': [
    'PETSTORE_BASE_URL',
    'URL',
    'production address, for OpenAPI; links begin with its path',
    '',
  ],
  '--staging-base-url': [
    'PETSTORE_STAGING_BASE_URL',
    'URL',
    'staging address, for OpenAPI alone',
    '',
  ],
  '--tls-cert': [
    'PETSTORE_TLS_CERT',
    'FILE',
    'certificate chain in PEM; with its key it serves HTTPS',
    '',
  ],
  '--tls-key': ['PETSTORE_TLS_KEY', 'FILE', 'its private key in PEM', ''],
  '--log': ['PETSTORE_LOG', 'LEVEL', 'silent, info, or requests, as with --dev', 'info'],
  '--log-format': [
    'PETSTORE_LOG_FORMAT',
    'FORMAT',
    'text, as on a terminal, or json, as elsewhere',
    '',
  ],
  '--dev': ['', '', 'make data/dev-key and tables once; a curl line to try, and docs', ''],
  '--expires': ['', 'TIME', 'with `keys add`: how long it lives, such as 90d, 12h, 30m, 60s', ''],
  '--after': ['', 'LINE', 'with `import`: leave out the lines up to this one', '0'],
  '--salvage': ['', 'OUT', 'with `check`: save what is sound in a new file, list the rest', ''],
  '--from': ['', 'STORAGE', 'with `copy`: the storage that is copied', ''],
  '--to': ['', 'STORAGE', 'with `copy`: the storage that gets what it lacks of it', ''],
  '--help': ['', '', 'print this, as -h and `help` do', ''],
  '--version': ['', '', 'print the version, as -v does', ''],
} as const satisfies Readonly<Record<string, readonly [string, string, string, string]>>;

export type OptionName = keyof typeof table;

const isOption = (text: string): text is OptionName => Object.hasOwn(table, text);
const names = Object.keys(table).filter(isOption);
const short: Readonly<Record<string, OptionName>> = { '-h': '--help', '-v': '--version' };
export const serverOptions = names.filter((name) => table[name][0] !== '' || name === '--dev');

export function optionsHelp(): readonly string[] {
  return names.map((name) => {
    const [env, value, about, fallback] = table[name];
    const given = name === 'PETSTORE_API_KEYS' ? '' : `${name} ${value}`;
    return `  ${given.padEnd(25)} ${env.padEnd(27)} ${about}${fallback === '' ? '' : ` (default ${fallback})`}`;
  });
}

/** What an option was set to, and by what, such as `--port` or `PORT`. */
export type Setting = Readonly<Record<'text' | 'from', string>>;

/** A flag beats the environment, which beats the default. */
export class Settings {
  readonly operands: string[] = [];
  readonly #given = new Map<OptionName, readonly string[]>();

  /**
   * `--flag value` or `--flag=value`, and operands anywhere between; after `--` all are operands.
   * @throws Refusal
   */
  constructor(words: string[]) {
    for (let word = words.shift(); word !== undefined; word = words.shift()) {
      if (word === '--') this.operands.push(...words.splice(0));
      else if (word.startsWith('-') && word !== '-') this.#take(word, words);
      else this.operands.push(word);
    }
  }

  #take(word: string, rest: string[]): void {
    const [, flag = '', joined] = /^([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const name = isOption(flag) ? flag : short[flag];
    if (name === undefined) throw new Refusal(`unknown flag ${flag}${suggestion(flag, names)}`);
    const before = this.#given.get(name);
    if (before !== undefined && name !== '--plugin' && name !== '--cors-origin')
      throw new Refusal(`flag ${flag} is given twice; give it once`);
    const wanted = table[name][1];
    if (wanted === '' && joined !== undefined)
      throw new Refusal(`flag ${flag} takes no value; write ${flag} alone`);
    const value = wanted === '' ? 'on' : (joined ?? rest.shift());
    // A following word that begins with -- is another flag; only --flag=value can give such a
    // value.
    if (value === undefined || value === '' || (joined === undefined && value.startsWith('--')))
      throw new Refusal(`flag ${flag} needs a value; write ${flag} ${wanted}`);
    this.#given.set(name, [...(before ?? []), value]);
  }

  /** @throws Refusal for a flag that is not among the known. */
  refuseOthers(known: readonly OptionName[], whose: string): void {
    const other = [...this.#given.keys()].find((name) => !known.includes(name));
    if (other !== undefined) throw new Refusal(`flag ${other} is not for ${whose}; leave it out`);
  }

  /** Undefined where neither a flag nor the environment sets it. */
  find(name: OptionName): Setting | undefined {
    const [env] = table[name];
    const [given] = this.#given.get(name) ?? [];
    const text = given ?? process.env[env];
    // An empty variable counts as unset: an environment file cannot unset one.
    return text ? { text, from: given === undefined ? env : name } : undefined;
  }

  /** The default where neither sets it. */
  get(name: OptionName, fallback: string = table[name][3]): Setting {
    return this.find(name) ?? { text: fallback, from: name };
  }

  /** All values of a repeated flag, or of a variable with commas. */
  list(name: 'PETSTORE_API_KEYS' | '--plugin' | '--cors-origin'): readonly Setting[] {
    const { text, from } = this.get(name);
    const texts = this.#given.get(name) ?? text.split(',').map((each) => each.trim());
    return texts.filter((each) => each !== '').map((each) => ({ text: each, from }));
  }
}

/**
 * What to try in place of an unknown word: one that begins so, or has other letters in two places
 * at most.
 */
export function suggestion(word: string, known: readonly string[]): string {
  const lacking = (one: string, other: string) =>
    [...one].reduce((rest, char) => rest.replace(char, ''), other).length;
  const isNear = (other: string) =>
    other.startsWith(word || ' ') || lacking(word, other) + lacking(other, word) <= 2;
  const near = known.find(isNear);
  return near === undefined ? '; --help lists all' : `; did you mean ${near}?`;
}

/** What `parse` makes of the text. @throws Refusal with the rule where that is nothing or false */
export function read<T>(
  { text, from }: Setting,
  parse: (text: string) => T | false | undefined,
  rule: string,
): T {
  const value = parse(text);
  if (value !== undefined && value !== false) return value;
  const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  throw new Refusal(`${from} must be ${rule}, not ${JSON.stringify(shown)}`);
}

/** Only decimal digits: no sign, exponent or leading zero. @throws Refusal */
export function readWholeNumber(setting: Setting, least: number, most: number): number {
  const isInRange = (number: number) => number >= least && number <= most;
  const parse = (text: string) =>
    /^(0|[1-9][0-9]{0,15})$/.test(text) && isInRange(Number(text)) && Number(text);
  return read(setting, parse, `a whole number from ${least} to ${most}`);
}

export function readWord<Word extends string>(setting: Setting, words: readonly Word[]): Word {
  return read(setting, (text) => words.find((word) => word === text), `one of ${words.join(', ')}`);
}

/** A date, or a time with its zone, in milliseconds since the epoch; NaN for any other text. */
export function timeOf(text: string): number {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
  const day = text.slice(0, 10);
  // `Date` reads 31 February as 3 March.
  const isOfCalendar = form.test(text) && new Date(day).getUTCDate() === Number(day.slice(8));
  return isOfCalendar ? Date.parse(text) : NaN;
}

/** In milliseconds. @throws Refusal */
export function readDuration(setting: Setting): number {
  const unitMs: Readonly<Record<string, number>> = {
    s: 1_000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
  };
  const parse = (text: string) => {
    const [, count, unit = ''] = /^([1-9][0-9]{0,5})(.)$/.exec(text) ?? [];
    return unitMs[unit] !== undefined && Number(count) * unitMs[unit];
  };
  return read(setting, parse, 'a time such as 90d, 12h, 30m or 60s, of at most six digits');
}

/** Undefined where neither file is named. @throws Refusal */
export async function readTlsFiles(settings: Settings) {
  const [certFile, keyFile] = [settings.find('--tls-cert'), settings.find('--tls-key')];
  if (certFile === undefined && keyFile === undefined) return undefined;
  if (certFile === undefined || keyFile === undefined)
    throw new Refusal(
      'HTTPS needs a certificate and its private key; give both --tls-cert FILE and --tls-key FILE',
    );
  const readPem = ({ text, from }: Setting) =>
    orRefuse(`${from} cannot be read`, 'name a PEM file', () => readFileSync(text));
  const [cert, key] = [await readPem(certFile), await readPem(keyFile)];
  const { createSecureContext } = await import('node:tls');
  const problem = `${certFile.from} ${certFile.text} and ${keyFile.from} ${keyFile.text} do not serve HTTPS`;
  const mend =
    'give a certificate in PEM, its chain after it, and its private key without a passphrase';
  await orRefuse(problem, mend, () => createSecureContext({ cert, key }));
  return { cert, key };
}
