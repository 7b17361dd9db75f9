/** Implements the `verify` command, which tests a running petstore against the contract. */
import {
  countRules,
  isPetstoreUrl,
  levels,
  UnusableServer,
  verifyPetstore,
  type PetstoreUnderTest,
  type Verdict,
} from '../conformance/index.js';
import { countOf, print, printInColour, Refusal, refuse, showProgress } from './output.js';
import { read, readWord, type Run } from './settings.js';

/** The sign and the ANSI colour of each outcome. */
const signs = {
  passed: { sign: '✔', colour: 32 },
  failed: { sign: '✖', colour: 31 },
  untried: { sign: '-', colour: 2 },
} as const;

/**
 * Runs `verify URL --key KEY`. The exit code is 1 if the server breaks a rule.
 *
 * @throws Refusal, also if the server cannot be tested
 */
export const run: Run = async (settings, [address, ...others]) => {
  if (address === undefined || others.length > 0)
    refuse('`verify` needs one URL, such as http://127.0.0.1:3000');

  const key = settings.find('--key');
  if (key === undefined) refuse('`verify` needs --key KEY, an API key that the server accepts');

  const parseUrl = (text: string) => {
    const url = text.length <= 2_000 && URL.canParse(text) ? new URL(text) : undefined;
    return url && isPetstoreUrl(url) ? url : undefined;
  };
  const parseKey = (text: string) => (/^[!-~]+$/.test(text) ? text : undefined);
  const options: PetstoreUnderTest = {
    url: read(
      { text: address, from: 'URL' },
      parseUrl,
      'a URL such as http://127.0.0.1:3000/v1, without user, query and fragment',
    ),
    key: read(key, parseKey, 'an API key of visible ASCII characters'),
    level: readWord(settings.get('--level'), levels),
    slow: settings.find('--slow') !== undefined,
  };
  const format = readWord(settings.get('--format'), ['text', 'json'] as const);

  const verdicts: Verdict[] = [];
  const count = countRules(options);
  try {
    for await (const verdict of verifyPetstore(options)) {
      showProgress('');
      if (format === 'text') await printVerdict(verdict, verdicts);
      verdicts.push(verdict);
      showProgress(`${verdicts.length} of ${countOf(count, 'rule')}`);
    }
  } catch (error) {
    throw error instanceof UnusableServer ? new Refusal(error.message) : error;
  } finally {
    showProgress('');
  }

  if (format === 'json') await print([JSON.stringify({ ...sumOf(verdicts), verdicts })]);
  else await printSums(verdicts);
  if (sumOf(verdicts).failed > 0) process.exitCode = 1;
};

/** Prints the line of a rule. The first rule of a chapter is preceded by the heading. */
async function printVerdict(verdict: Verdict, before: readonly Verdict[]): Promise<void> {
  const { number, sentence, chapter, cost, outcome, reason, failure } = verdict;
  if (before.at(-1)?.chapter !== chapter) await print(['', chapter]);

  const { sign, colour } = signs[outcome];
  const evidence =
    failure && `: sent ${failure.sent}, got ${failure.came}, expected ${failure.expected}`;
  const ending = evidence ?? (reason === undefined ? '' : ` (${reason})`);
  await printInColour(`  ${sign} ${number} ${sentence}${ending}`, colour);
  if (failure !== undefined) await print([`      cost: ${cost}`]);
}

/** Prints the totals of each chapter and of all rules. */
async function printSums(verdicts: readonly Verdict[]): Promise<void> {
  const chapters = [...new Set(verdicts.map(({ chapter }) => chapter))];
  const totalLine = (name: string, some: readonly Verdict[]): string => {
    const { passed, failed, untried } = sumOf(some);
    const rest = [
      ...(failed > 0 ? [`${failed} failed`] : []),
      ...(untried > 0 ? [`${untried} not tried`] : []),
    ];
    return `  ${[`${passed} of ${some.length} hold`, ...rest].join(', ').padEnd(36)} ${name}`;
  };

  const totals = chapters.map((name) =>
    totalLine(
      name,
      verdicts.filter(({ chapter }) => chapter === name),
    ),
  );
  await print(['', ...totals, totalLine('all', verdicts)]);
}

/** Returns the number of rules by outcome. */
function sumOf(verdicts: readonly Verdict[]): Readonly<Record<Verdict['outcome'], number>> {
  const countOfOutcome = (outcome: Verdict['outcome']) =>
    verdicts.filter((verdict) => verdict.outcome === outcome).length;

  return {
    passed: countOfOutcome('passed'),
    failed: countOfOutcome('failed'),
    untried: countOfOutcome('untried'),
  };
}
