/** Writes the result of `verify` as text, JSON, JUnit XML or Markdown. */
import type { ListedRule, Verdict } from '../conformance/verify-petstore.js';
import { countOf } from './output.js';

/** The formats of a report. */
export const reportFormats = ['text', 'json', 'junit', 'markdown'] as const;

/** A format of a report. */
export type ReportFormat = (typeof reportFormats)[number];

/** The result of a run. */
export interface VerifyResult {
  readonly url: string;
  readonly level: string;
  /** The number of stories, and their seed. */
  readonly stories: number;
  readonly seed: number;
  readonly notes: readonly string[];
  readonly verdicts: readonly Verdict[];
}

/** The words and the signs of the outcomes. */
export const outcomes = {
  passed: { sign: '✔', colour: 32, words: 'held' },
  failed: { sign: '✖', colour: 31, words: 'broken' },
  warned: { sign: '!', colour: 33, words: 'with a warning' },
  untried: { sign: '?', colour: 33, words: 'not tried' },
  inapplicable: { sign: '-', colour: 2, words: 'not applicable' },
} as const satisfies Readonly<
  Record<
    Verdict['outcome'],
    { readonly sign: string; readonly colour: number; readonly words: string }
  >
>;

const outcomeNames = ['passed', 'failed', 'warned', 'untried', 'inapplicable'] as const;

/** Returns the number of rules by outcome. */
export function countOutcomes(
  verdicts: readonly Verdict[],
): Readonly<Record<Verdict['outcome'], number>> {
  const countOfOutcome = (outcome: Verdict['outcome']) =>
    verdicts.filter((verdict) => verdict.outcome === outcome).length;

  return {
    passed: countOfOutcome('passed'),
    failed: countOfOutcome('failed'),
    warned: countOfOutcome('warned'),
    untried: countOfOutcome('untried'),
    inapplicable: countOfOutcome('inapplicable'),
  };
}

/** Returns the summary of a run, such as `12 rules: 11 held, 1 broken (S1)`. */
export function summaryLine(verdicts: readonly Verdict[]): string {
  const counts = outcomeNames.flatMap((outcome) => {
    const numbers = verdicts
      .filter((verdict) => verdict.outcome === outcome)
      .map(({ number }) => number);
    const { words } = outcomes[outcome];
    if (numbers.length === 0) return [];
    return outcome === 'passed'
      ? [`${numbers.length} ${words}`]
      : [`${numbers.length} ${words} (${numbers.join(', ')})`];
  });
  return `${countOf(verdicts.length, 'rule')}: ${counts.join(', ') || 'none'}`;
}

/** Returns a line that says how to repeat the stories of a run. */
export function storyLine({ stories, seed }: VerifyResult): string {
  return `stories: ${stories}, with --seed ${seed}`;
}

/** Returns a whole report in a format other than text. */
export function reportOf(format: Exclude<ReportFormat, 'text'>, result: VerifyResult): string {
  if (format === 'json') {
    const { verdicts, ...head } = result;
    return JSON.stringify({ ...countOutcomes(verdicts), ...head, verdicts });
  }
  return format === 'junit' ? junitOf(result) : markdownOf(result);
}

/** Escapes a text for XML, which has no form for most control characters. */
function xml(text: string): string {
  return text
    .replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\t', '&#9;')
    .replaceAll('\n', '&#10;')
    .replaceAll('\r', '&#13;');
}

function evidenceLines({ source, cost, failure }: Verdict): readonly string[] {
  if (failure === undefined) return [];
  return [
    `sent: ${failure.sent}`,
    `got: ${failure.came}`,
    `expected: ${failure.expected}`,
    `written in: ${source}`,
    `cost: ${cost}`,
    ...(failure.command === '' ? [] : [`try: ${failure.command.replaceAll('\n', '\n     ')}`]),
  ];
}

function junitOf(result: VerifyResult): string {
  const { url, level, verdicts } = result;
  const { failed, untried, inapplicable } = countOutcomes(verdicts);
  const cases = verdicts.map((verdict) => {
    const { number, sentence, chapter, outcome, reason = '', failure } = verdict;
    const lines = evidenceLines(verdict).join('\n');
    const message = failure === undefined ? reason : `got ${failure.came}, not ${failure.expected}`;
    const child = {
      passed: '',
      warned: `<system-out>${xml(`warning\n${lines}`)}</system-out>`,
      failed: `<failure message="${xml(message)}">${xml(lines)}</failure>`,
      untried: `<error message="${xml(`not tried: ${reason}`)}"/>`,
      inapplicable: `<skipped message="${xml(reason)}"/>`,
    }[outcome];
    const name = xml(`${number} ${sentence}`);
    return `  <testcase classname="${xml(chapter)}" name="${name}">${child}</testcase>`;
  });
  const counts =
    `tests="${verdicts.length}" failures="${failed}" errors="${untried}" ` +
    `skipped="${inapplicable}"`;
  const name = xml(`petstore verify ${url}, level ${level}, ${storyLine(result)}`);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuite name="${name}" ${counts}>`,
    ...cases,
    '</testsuite>',
  ].join('\n');
}

/** Escapes a text for a cell of a Markdown table. */
function cell(text: string): string {
  return text.replace(/[\\|<>*_[\]]/g, '\\$&').replace(/\s+/g, ' ');
}

/** Returns a block of code whose fence is longer than any in the text. */
function codeBlock(text: string): readonly string[] {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = '`'.repeat(longest + 1);
  return [`${fence}sh`, text, fence];
}

function markdownOf(result: VerifyResult): string {
  const { url, level, notes, verdicts } = result;
  const rows = verdicts.map(({ number, sentence, outcome, reason = '' }) => {
    const { words } = outcomes[outcome];
    const ending = reason === '' ? words : `${words}: ${cell(reason)}`;
    return `| ${number} | ${cell(sentence)} | ${ending} |`;
  });
  const details = verdicts.flatMap((verdict) => {
    const { number, sentence, source, cost, failure } = verdict;
    if (failure === undefined) return [];
    const { sent, came, expected, command } = failure;
    return [
      '',
      `## ${number}: ${cell(sentence)}`,
      '',
      `- Sent: ${cell(sent)}`,
      `- Got: ${cell(came)}`,
      `- Expected: ${cell(expected)}`,
      `- Written in: ${cell(source)}`,
      `- Cost: ${cell(cost)}`,
      ...(command === '' ? [] : ['', ...codeBlock(command)]),
    ];
  });
  return [
    `# petstore verify ${cell(url)}, level ${level}`,
    '',
    `${summaryLine(verdicts)}; ${storyLine(result)}`,
    ...notes.map((note) => `\n${cell(note)}.`),
    '',
    '| rule | sentence | outcome |',
    '|---|---|---|',
    ...rows,
    ...details,
  ].join('\n');
}

/** Returns the lines of `--list`. */
export function ruleLines(rules: readonly ListedRule[]): readonly string[] {
  return rules.map(
    ({ number, level, sentence, sources }) =>
      `${number.padEnd(4)} ${level.padEnd(13)} ${sentence} [${sources.join('; ')}]`,
  );
}

/** Returns the lines under a broken rule. */
export function evidenceOf(verdict: Verdict): readonly string[] {
  return evidenceLines(verdict).flatMap((line) => line.split('\n').map((part) => `      ${part}`));
}
