/** Implements the `verify` command, which tests a running petstore against the contract. */
import { randomInt } from 'node:crypto';
import {
  countRules,
  isPetstoreUrl,
  levels,
  listRules,
  ruleNumbers,
  UnusableServer,
  verifyPetstore,
  type PetstoreUnderTest,
  type Verdict,
} from '../conformance/verify-petstore.js';
import { readRegularFile } from './files.js';
import {
  countOf,
  orRefuse,
  print,
  printInColour,
  printNotice,
  Refusal,
  refuse,
  showProgress,
} from './output.js';
import { read, readWholeNumber, readWord } from './setting-values.js';
import type { Run, Settings } from './settings.js';
import {
  countOutcomes,
  evidenceOf,
  outcomes,
  reportFormats,
  reportOf,
  ruleLines,
  storyLine,
  summaryLine,
  type VerifyResult,
} from './verify-report.js';

/** The maximum length of a file with a key, in bytes. */
const maxKeyFileBytes = 2 ** 14;

/**
 * Runs `verify URL`. The exit code is 1 if the server breaks a rule, and 3 if a rule was not tried
 * or no server responds.
 *
 * @throws Refusal, also if the server refuses the key or the base path
 */
export const run: Run = async (settings, [address, ...others]) => {
  const only = onlyOf(settings);
  const chosen = {
    level: readWord(settings.get('--level'), levels),
    slow: settings.find('--slow') !== undefined,
    ...(only !== undefined && { only }),
  };
  if (settings.find('--list')) return print(ruleLines(listRules(chosen)));

  if (address === undefined || others.length > 0)
    refuse('`verify` needs one URL, such as http://127.0.0.1:3000');

  const parseUrl = (text: string) => {
    const url = text.length <= 2_000 && URL.canParse(text) ? new URL(text) : undefined;
    return url && isPetstoreUrl(url) ? url : undefined;
  };
  const notes: string[] = [];
  const format = readWord(settings.get('--format'), reportFormats);
  const options: PetstoreUnderTest = {
    ...chosen,
    url: read(
      { text: address, from: 'URL' },
      parseUrl,
      'a URL such as http://127.0.0.1:3000/v1, without user, query and fragment',
      /^[\w.-]{1,60}(:\d{1,5})?(\/[\w/-]{0,20})?$/.test(address)
        ? `; did you mean http://${address}?`
        : '',
    ),
    key: await keyOf(settings),
    category: read(
      settings.get('--category'),
      (text) => (/^-?(0|[1-9]\d{0,17})$/.test(text) ? text : undefined),
      'an integer in decimal digits',
    ),
    stories: storyCountOf(settings),
    seed: seedOf(settings),
    timeoutSeconds: readWholeNumber(settings.get('--timeout'), 1, 3_600),
    onNote: (note) => {
      notes.push(note);
      showProgress('');
      if (format === 'text') printNotice(`note: ${note}`);
    },
  };

  const verdicts: Verdict[] = [];
  const count = countRules(options);
  if (count === 0) refuse('--only names no rule of this level; choose a higher --level');
  try {
    for await (const verdict of verifyPetstore(options)) {
      showProgress('');
      if (format === 'text') await printVerdict(verdict, verdicts);
      verdicts.push(verdict);
      showProgress(`${verdicts.length} of ${countOf(count, 'rule')}`);
    }
  } catch (error) {
    if (!(error instanceof UnusableServer)) throw error;
    if (!error.isUnreachable) throw new Refusal(error.message);
    printNotice(error.message);
    process.exitCode = 3;
    return;
  } finally {
    showProgress('');
  }

  const { level = '', url, stories = 0, seed = 0 } = options;
  const result = { url: String(url), level, stories, seed, notes, verdicts };
  if (format !== 'text') await print(reportOf(format, result).split('\n'));
  else await printSums(result);

  const { failed, untried } = countOutcomes(verdicts);
  if (failed > 0) process.exitCode = 1;
  else if (untried > 0 && settings.find('--allow-untried') === undefined) process.exitCode = 3;
};

/** Returns the numbers of `--only`; undefined without it. */
function onlyOf(settings: Settings): readonly string[] | undefined {
  const setting = settings.find('--only');
  if (setting === undefined) return undefined;

  const known = ruleNumbers();
  const parse = (text: string) => {
    const numbers = text.split(',');
    return numbers.every((number) => known.includes(number)) ? numbers : undefined;
  };
  const plain = setting.text.toUpperCase().replace(/\s/g, '');
  const hint = parse(plain) === undefined ? '' : `; did you mean ${plain}?`;
  return read(setting, parse, 'numbers of rules such as C7,S1; --list prints them', hint);
}

/**
 * Returns the API key from `--key`, the file of `--key-file`, or `PETSTORE_KEY`.
 *
 * @throws Refusal if the key is missing or not valid, or if both flags are given
 */
async function keyOf(settings: Settings): Promise<string> {
  const parse = (text: string) => (/^[!-~]+$/.test(text) ? text : undefined);
  const rule = 'an API key of visible ASCII characters';
  const file = settings.find('--key-file');
  const key = settings.find('--key');

  if (file !== undefined) {
    if (key?.from === '--key') refuse('give --key or --key-file, not both');
    const bytes = await orRefuse(`--key-file ${file.text} cannot be read`, 'name a file', () =>
      readRegularFile(file.text, maxKeyFileBytes),
    );
    const text = bytes.toString('latin1').replace(/\r?\n$/, '');
    return read({ text, from: `the text in ${file.text}`, isSecret: true }, parse, rule);
  }
  if (key === undefined)
    refuse(
      '`verify` needs an API key that the server accepts; set PETSTORE_KEY or give --key-file',
    );
  return read(key, parse, rule);
}

/** Returns the number of stories: of `--stories`, else by `--thorough`. */
function storyCountOf(settings: Settings): number {
  const fallback = settings.find('--thorough') === undefined ? 20 : 200;
  return readWholeNumber(settings.get('--stories', String(fallback)), 0, 10_000);
}

/** Returns the seed of `--seed`, or a random one. */
function seedOf(settings: Settings): number {
  const setting = settings.find('--seed');
  return setting === undefined ? randomInt(2 ** 32) : readWholeNumber(setting, 0, 2 ** 32 - 1);
}

/** Prints the line of a rule. The first rule of a chapter is preceded by the heading. */
async function printVerdict(verdict: Verdict, before: readonly Verdict[]): Promise<void> {
  const { number, sentence, chapter, outcome, reason } = verdict;
  if (before.at(-1)?.chapter !== chapter) await print(['', chapter]);

  const { sign, colour, words } = outcomes[outcome];
  const ending = reason === undefined ? '' : ` (${words}: ${reason})`;
  await printInColour(`  ${sign} ${number} ${sentence}${ending}`, colour);
  await print(evidenceOf(verdict));
}

/** Prints the seed of the stories, and the totals of each chapter and of all rules. */
async function printSums(result: VerifyResult): Promise<void> {
  const { verdicts } = result;
  const chapters = [...new Set(verdicts.map(({ chapter }) => chapter))];
  const totals = chapters.map((name) => {
    const some = verdicts.filter(({ chapter }) => chapter === name);
    return `  ${`${countOutcomes(some).passed} of ${some.length} held`.padEnd(16)} ${name}`;
  });
  await print(['', ...totals, '', storyLine(result), summaryLine(verdicts)]);
  if (countOutcomes(verdicts).untried > 0)
    await print(['Rules were not tried, so the server may break them.']);
}
