/** Parses the values of settings: numbers, words, durations and files. */
import { defaultInterface, loadTls, nodeInterfaces, type NodeInterface } from '../http/index.js';
import type { TlsPair } from '../index.js';
import { readRegularFile } from './files.js';
import { orRefuse, quote, refuse } from './output.js';
import type { Setting } from './setting-text.js';
import type { Settings } from './settings.js';
import { suggestion } from './suggestion.js';

/**
 * Parses the text of a setting.
 *
 * @param hint The end of the message about a value that is not secret.
 * @throws Refusal with the rule if `parse` returns undefined
 */
export function read<T>(
  { text, from, isSecret = false }: Setting,
  parse: (text: string) => T | undefined,
  rule: string,
  hint = '',
): T {
  const value = parse(text);
  if (value !== undefined) return value;
  refuse(`${from} must be ${rule}${isSecret ? '' : `, not ${quote(text)}${hint}`}`);
}

/**
 * Parses a whole number in decimal digits, without sign, exponent or leading zeros.
 *
 * @throws Refusal
 */
export function readWholeNumber(setting: Setting, least: number, most: number): number {
  const parse = (text: string) => {
    const number = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : NaN;
    return number >= least && number <= most ? number : undefined;
  };

  return read(setting, parse, `a whole number from ${least} to ${most}`);
}

/**
 * Reads a setting that must be one of `words`.
 *
 * @throws Refusal
 */
export function readWord<Word extends string>(setting: Setting, words: readonly Word[]): Word {
  const parse = (text: string) => words.find((word) => word === text);
  return read(setting, parse, `one of ${words.join(', ')}`, suggestion(setting.text, words, ''));
}

/**
 * Parses a duration such as `90d` to milliseconds.
 *
 * @throws Refusal
 */
export function readDuration(setting: Setting): number {
  const unitMs: Readonly<Record<string, number>> = {
    s: 1_000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
  };

  const parse = (text: string) => {
    const [, count, unit = ''] = /^([1-9][0-9]{0,5})(.)$/.exec(text) ?? [];
    return unitMs[unit] === undefined ? undefined : Number(count) * unitMs[unit];
  };

  return read(setting, parse, 'a time such as 90d, 12h, 30m or 60s, of at most six digits');
}

/** The longest PEM file in bytes, about a hundred times a usual chain. */
const maxPemBytes = 2 ** 20;

/**
 * Reads the files of `--tls-cert` and `--tls-key`; returns undefined if neither is set.
 *
 * @throws Refusal
 */
export async function readTlsFiles(settings: Settings): Promise<TlsPair | undefined> {
  const certFile = settings.find('--tls-cert');
  const keyFile = settings.find('--tls-key');

  if (certFile === undefined && keyFile === undefined) return undefined;
  if (certFile === undefined || keyFile === undefined)
    refuse(
      'HTTPS needs a certificate and its private key; give both --tls-cert FILE and --tls-key FILE',
    );

  const readPem = ({ text, from }: Setting) =>
    orRefuse(`${from} ${text} cannot be read`, 'name a PEM file', () =>
      readRegularFile(text, maxPemBytes),
    );
  const pair = { cert: await readPem(certFile), key: await readPem(keyFile) };

  const { checkTlsPair } = await loadTls();
  const files = `${certFile.from} ${certFile.text} and ${keyFile.from} ${keyFile.text}`;
  const hint =
    'give a certificate in PEM, its chain after it, and its private key without a passphrase';
  await orRefuse(`${files} do not serve HTTPS`, hint, () => checkTlsPair(pair));
  return pair;
}

/** Returns the value of `--node-interface`. @throws Refusal if it is not valid */
export function readNodeInterface(settings: Settings): NodeInterface {
  return readWord(settings.get('--node-interface', defaultInterface()), nodeInterfaces);
}
