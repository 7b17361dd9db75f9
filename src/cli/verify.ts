/** The `verify` command: tries the rules of the contract on a petstore that listens somewhere. */
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

/** Sign and colour (of ANSI) of each outcome. */
const signs = {
  passed: { sign: '✔', colour: 32 },
  failed: { sign: '✖', colour: 31 },
  untried: { sign: '-', colour: 2 },
} as const;

/**
 * Runs `verify URL --key KEY`; the process exits by 1 where a rule does not hold.
 *
 * @throws Refusal, also where no rule can be tried
 */
export const run: Run = async (settings, [address, ...others]) => {
  if (address === undefined || others.length > 0)
    refuse('`verify` needs one URL, such as http://127.0.0.1:3000');

  const key = settings.find('--key');
  if (key === undefined) refuse('`verify` needs --key KEY, an API key that the server takes');

  const parseUrl = (text: string) => {
    const url = text.length <= 2_000 && URL.canParse(text) ? new URL(text) : undefined;
    return url && isPetstoreUrl(url) ? url : undefined;
  };
  const parseKey = (text: string) => (/^[!-~]+$/.test(text) ? text : undefined);
  const options: PetstoreUnderTest = {
    url: read(
      { text: address, from: 'URL' },
      parseUrl,
      'an address such as http://127.0.0.1:3000/v1, no more',
    ),
    key: read(key, parseKey, 'an API key, of visible ASCII characters'),
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

/** Prints the line of a rule, and in front of the first of a chapter its heading. */
async function printVerdict(verdict: Verdict, before: readonly Verdict[]): Promise<void> {
  const { number, sentence, chapter, cost, outcome, reason, failure } = verdict;
  if (before.at(-1)?.chapter !== chapter) await print(['', chapter]);

  const { sign, colour } = signs[outcome];
  const evidence =
    failure && `: sent ${failure.sent}, got ${failure.came}, not ${failure.expected}`;
  const ending = evidence ?? (reason === undefined ? '' : ` (${reason})`);
  await printInColour(`  ${sign} ${number} ${sentence}${ending}`, colour);
  if (failure !== undefined) await print([`      what it costs: ${cost}`]);
}

/** Prints how many rules of each chapter hold, and of all. */
async function printSums(verdicts: readonly Verdict[]): Promise<void> {
  const chapters = [...new Set(verdicts.map(({ chapter }) => chapter))];
  const linesOf = (name: string, some: readonly Verdict[]): string => {
    const { passed, failed, untried } = sumOf(some);
    const rest = [
      ...(failed > 0 ? [`${failed} failed`] : []),
      ...(untried > 0 ? [`${untried} not tried`] : []),
    ];
    return `  ${[`${passed} of ${some.length} hold`, ...rest].join(', ').padEnd(36)} ${name}`;
  };

  const sums = chapters.map((name) =>
    linesOf(
      name,
      verdicts.filter(({ chapter }) => chapter === name),
    ),
  );
  await print(['', ...sums, linesOf('all', verdicts)]);
}

/** How many rules had each outcome. */
function sumOf(verdicts: readonly Verdict[]): Readonly<Record<Verdict['outcome'], number>> {
  const countOfOutcome = (outcome: Verdict['outcome']) =>
    verdicts.filter((verdict) => verdict.outcome === outcome).length;

  return {
    passed: countOfOutcome('passed'),
    failed: countOfOutcome('failed'),
    untried: countOfOutcome('untried'),
  };
}
