/** The options of the process: which there are, and their values, or a refusal that names source and rule. */
import { readFileSync } from 'node:fs';
import { orRefuse, Refusal } from './output.js';

/** Options in the order of the help: variable, what stands for the value, meaning, default. */
const table = {
  '--host': ['HOST', 'ADDRESS', 'address to listen on', '127.0.0.1'],
  '--port': ['PORT', 'PORT', 'port to listen on; 0 takes a free one', '3000'],
  '--storage': ['PETSTORE_STORAGE', 'STORAGE', 'file:PATH, memory:, postgres://…', 'file:data/pets.jsonl'],
  '--seed': ['PETSTORE_SEED', 'FILE', 'animals of JSON Lines that an empty storage begins with', ''],
  '--clock': ['PETSTORE_CLOCK', 'TIME', 'with memory: alone: the time that it is at the start', ''],
  PETSTORE_API_KEYS: ['PETSTORE_API_KEYS', 'KEYS', 'API keys, comma between', ''],
  '--keys-file': ['PETSTORE_KEYS_FILE', 'FILE', 'made by `keys add`; data/keys.json where it exists', ''],
  '--plugin': ['PETSTORE_PLUGINS', 'PLUGIN', 'see below; repeatable; commas in the variable', ''],
  '--cors-origin': ['PETSTORE_CORS_ORIGINS', 'ORIGIN', 'whose pages may call; repeatable likewise', ''],
  '--max-body-bytes': ['PETSTORE_MAX_BODY_BYTES', 'BYTES', 'longest request body', '65536'],
  '--drain': ['PETSTORE_DRAIN', 'SECONDS', 'go on serving so long after SIGTERM, /readyz at 503', '0'],
  '--base-url': ['PETSTORE_BASE_URL', 'URL', 'production address, for the OpenAPI document', ''],
  '--staging-base-url': ['PETSTORE_STAGING_BASE_URL', 'URL', 'staging address, for the same', ''],
  '--tls-cert': ['PETSTORE_TLS_CERT', 'FILE', 'certificate chain in PEM; with its key it serves HTTPS', ''],
  '--tls-key': ['PETSTORE_TLS_KEY', 'FILE', 'its private key in PEM', ''],
  '--log': ['PETSTORE_LOG', 'LEVEL', 'silent, info, or requests, as with --dev', 'info'],
  '--log-format': ['PETSTORE_LOG_FORMAT', 'FORMAT', 'text, as on a terminal, or json, as elsewhere', ''],
  '--dev': ['', '', 'make data/dev-key and tables once; a curl line to try, and docs', ''],
  '--expires': ['', 'TIME', 'with `keys add`: how long it lives, such as 90d, 12h, 30m, 60s', ''],
  '--after': ['', 'LINE', 'with `import`: go on after this line of the file', '0'],
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

/** Those that a server takes. */
export const serverOptions = names.filter((name) => table[name][0] !== '' || name === '--dev');

export function optionsHelp(): readonly string[] {
  return names.map((name) => {
    const [env, value, about, fallback] = table[name];
    const given = name === 'PETSTORE_API_KEYS' ? '' : `${name} ${value}`;
    return `  ${given.padEnd(25)} ${env.padEnd(27)} ${about}${fallback === '' ? '' : ` (default ${fallback})`}`;
  });
}

/** What an option was set to, and by what, such as `--port` or `PORT`. */
export interface Setting {
  readonly text: string;
  readonly from: string;
}

/** A flag beats the environment, which beats the default. */
export class Settings {
  readonly operands: readonly string[];
  readonly #given = new Map<OptionName, readonly string[]>();

  /** `--flag value` or `--flag=value`, and operands anywhere between; after `--` all are operands. @throws Refusal */
  constructor(words: string[]) {
    const operands: string[] = [];
    for (let word = words.shift(); word !== undefined; word = words.shift()) {
      if (word === '--') operands.push(...words.splice(0));
      else if (word.startsWith('-') && word !== '-') this.#take(word, words);
      else operands.push(word);
    }
    this.operands = operands;
  }

  #take(word: string, rest: string[]): void {
    const [, flag = '', joined] = /^([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const name = isOption(flag) ? flag : short[flag];
    if (name === undefined) throw new Refusal(`unknown flag ${flag}${suggestion(flag, names)}`);
    const before = this.#given.get(name);
    if (before !== undefined && name !== '--plugin' && name !== '--cors-origin')
      throw new Refusal(`flag ${flag} is given twice; give it once`);
    const wanted = table[name][1];
    if (wanted === '' && joined !== undefined) throw new Refusal(`flag ${flag} takes no value; write ${flag} alone`);
    const value = wanted === '' ? 'on' : (joined ?? rest.shift());
    // A following word that begins with -- is another flag; only --flag=value can give such a value.
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
    if (given !== undefined) return { text: given, from: name };
    // An empty variable counts as unset: an environment file cannot unset one.
    const text = env === '' ? undefined : process.env[env];
    return text ? { text, from: env } : undefined;
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

const mostEdits = 2;

/** What to try in place of an unknown word: the nearest of the known, or the help. */
export function suggestion(word: string, known: readonly string[]): string {
  const editsTo = (other: string) => (word !== '' && other.startsWith(word) ? 1 : editsBetween(word, other, mostEdits));
  const [near = ''] = known.toSorted((one, other) => editsTo(one) - editsTo(other));
  return editsTo(near) > mostEdits ? '; --help lists all' : `; did you mean ${near}?`;
}

function editsBetween(one: string, other: string, most: number): number {
  if (one === '' || other === '' || most < 0) return Math.max(one.length, other.length);
  const [ones, others] = [one.slice(1), other.slice(1)];
  if (one[0] === other[0]) return editsBetween(ones, others, most);
  const rest = (left: string, right: string) => editsBetween(left, right, most - 1);
  return 1 + Math.min(rest(ones, other), rest(one, others), rest(ones, others));
}

/** Only decimal digits: no sign, exponent or leading zero. @throws Refusal */
export function readWholeNumber(setting: Setting, least: number, most: number): number {
  const number = /^(0|[1-9][0-9]{0,15})$/.test(setting.text) ? Number(setting.text) : NaN;
  return required(number >= least && number <= most && number, setting, `a whole number from ${least} to ${most}`);
}

export function readWord<Word extends string>(setting: Setting, words: readonly Word[]): Word {
  const found = words.find((word) => word === setting.text);
  return required(found, setting, `one of ${words.join(', ')}`);
}

export function readUrl(setting: Setting | undefined): string | undefined {
  if (setting === undefined || (/^https?:\/\//i.test(setting.text) && URL.canParse(setting.text))) return setting?.text;
  throw new Refusal(`${setting.from} must be an absolute URL such as https://api.example.com/v1`);
}

export function readHost(setting: Setting): string {
  const isHost = /^[0-9A-Za-z_.:%-]+$/.test(setting.text);
  return required(isHost && setting.text, setting, 'an address or a host name such as 127.0.0.1 or ::1');
}

/** A date, or a time with its zone, in milliseconds since the epoch; NaN for any other text. */
export function timeOf(text: string): number {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
  const day = text.slice(0, 10);
  // `Date` reads 31 February as 3 March.
  const isOfCalendar = form.test(text) && new Date(day).getUTCDate() === Number(day.slice(8));
  return isOfCalendar ? Date.parse(text) : NaN;
}

/** In milliseconds since the epoch. @throws Refusal */
export function readTime(setting: Setting): number {
  const text = setting.text.toUpperCase();
  const time = /T..:..:../.test(text) ? timeOf(text) : NaN;
  return required(time >= 0 && time, setting, 'a time of RFC 3339 from 1970 on, such as 2030-12-05T23:59:50Z');
}

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** In milliseconds. @throws Refusal */
export function readDuration(setting: Setting): number {
  const [, count = '', unit = ''] = /^([1-9][0-9]{0,9})([smhd])$/.exec(setting.text) ?? [];
  const milliseconds = Number(count) * (unitMs[unit] ?? NaN);
  const isLife = milliseconds <= 36_525 * 86_400_000;
  return required(isLife && milliseconds, setting, 'a time such as 90d, 12h, 30m or 60s, of at most 100 years');
}

export function readLogFormat(settings: Settings, stream: NodeJS.WriteStream) {
  return readWord(settings.get('--log-format', stream.isTTY ? 'text' : 'json'), ['text', 'json']);
}

/** Undefined where neither file is named. @throws Refusal */
export async function readTlsFiles(settings: Settings) {
  const [certFile, keyFile] = [settings.find('--tls-cert'), settings.find('--tls-key')];
  if (certFile === undefined) {
    if (keyFile === undefined) return undefined;
    throw new Refusal(`${keyFile.from} needs a certificate too; give --tls-cert FILE`);
  }
  if (keyFile === undefined) throw new Refusal(`${certFile.from} needs a private key too; give --tls-key FILE`);
  const read = ({ text, from }: Setting) =>
    orRefuse(`${from} cannot be read`, 'name a PEM file', () => readFileSync(text));
  const [cert, key] = [await read(certFile), await read(keyFile)];
  const { createSecureContext } = await import('node:tls');
  for (const [{ text, from }, problem, mend, pair] of [
    [certFile, 'holds no certificate in PEM', 'give one, its chain after it', { cert }],
    [keyFile, 'holds no private key in PEM without a passphrase', 'give one', { key }],
    [keyFile, `is not the key of the certificate in ${certFile.text}`, 'give the one it was made with', { cert, key }],
  ] as const)
    await orRefuse(`${from} ${text} ${problem}`, mend, () => createSecureContext(pair));
  return { cert, key };
}

/** The value that was read. @throws Refusal with the rule where it is false or undefined */
function required<Value>(read: Value | false | undefined, { text, from }: Setting, rule: string): Value {
  if (read !== false && read !== undefined) return read;
  const shown = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  throw new Refusal(`${from} must be ${rule}, not ${JSON.stringify(shown)}`);
}
