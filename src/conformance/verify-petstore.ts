/** Checks a running server, written in any language, against the rules of the contract. */
import { before, describe, test } from 'node:test';
import { reasonOf } from '../index.js';
import { adding } from './adding-rules.js';
import { maxShownBytes, NoResponse } from './raw-connection.js';
import { deprecation } from './deprecation-rules.js';
import { keys } from './key-rules.js';
import { listing } from './listing-rules.js';
import { paths } from './path-rules.js';
import { protocol } from './protocol-rules.js';
import { Mismatch, summaryOf, Untried } from './outcome.js';
import type { Rule } from './rule.js';
import { levels, type Level } from './levels.js';
import { TestedServer } from './tested-server.js';
import { specification } from './specification-rules.js';

const chapters = [specification, listing, paths, adding, deprecation, keys, protocol];

/** A server to check, and the rules to check. */
export interface PetstoreUnderTest {
  /**
   * An http: or https: URL. Its path is the base path, which `/pets` follows. Without a path it is
   * `/v1`; the path `//` stands for no base path.
   */
  readonly url: string | URL;
  /** An API key that the server accepts. */
  readonly key: string;
  /**
   * The level of rules to check, which includes the levels before it.
   *
   * @defaultValue `full`
   */
  readonly level?: Level;
  /**
   * True to check the rules on timeouts too, which takes half a minute.
   *
   * @defaultValue false
   */
  readonly slow?: boolean;
}

/** The outcome of one rule. */
export interface Verdict {
  /** The number of the rule in docs/contract.md, such as `C10`. */
  readonly number: string;
  /** The behaviour of a correct server, as a sentence without its full stop. */
  readonly sentence: string;
  /** The name of the chapter of the rule. */
  readonly chapter: string;
  /** The harm to a client if the rule is broken, as a sentence without its full stop. */
  readonly cost: string;
  /** `untried` if the rule could not be checked on this server. */
  readonly outcome: 'passed' | 'failed' | 'untried';
  /** The reason why the rule is `untried`. */
  readonly reason?: string;
  /** The evidence if the rule `failed`. */
  readonly failure?: RuleFailure;
}

/** A request and a response that break a rule. */
export interface RuleFailure {
  /** A summary of the request: request line and body, or a value. */
  readonly sent: string;
  /** A summary of the response. */
  readonly came: string;
  /** The expected response, in words. */
  readonly expected: string;
  /** The bytes of the request; each character is a byte. */
  readonly sentBytes: string;
  /** The bytes of the response, up to the first 65,536; each character is a byte. */
  readonly cameBytes: string;
}

/** The error for a server on which no rule can be checked. Its message is one line. */
export class UnusableServer extends Error {
  override readonly name = 'UnusableServer';
}

/**
 * Checks the rules one after the other, and yields a verdict for each. Some checks add pets. None
 * needs an empty store.
 *
 * @throws UnusableServer if there is no server at the URL, or it refuses the key or the base path
 * @throws TypeError if the URL is not valid
 */
export async function* verifyPetstore(options: PetstoreUnderTest): AsyncGenerator<Verdict> {
  const server = serverOf(options);
  await checkUsable(server);

  const check = ruleChecker(server);
  for (const { name: chapter, rules } of chapters)
    for (const rule of rules) {
      const { number, sentence, cost } = rule;
      if (isSelected(rule, options))
        yield { number, sentence, cost, chapter, ...(await check(rule)) };
    }
}

/** Returns the number of rules that {@link verifyPetstore} checks. */
export function countRules(options: Pick<PetstoreUnderTest, 'level' | 'slow'>): number {
  return chapters.flatMap(({ rules }) => rules.filter((rule) => isSelected(rule, options))).length;
}

/**
 * Registers a test with node:test for each rule, named by its number and sentence. The test of a
 * rule that cannot be checked is skipped with the reason.
 */
export function testPetstore(options: PetstoreUnderTest): void {
  const server = serverOf(options);
  const check = ruleChecker(server);

  describe(`the contract of a petstore at ${server.url.href}`, () => {
    before(() => checkUsable(server));

    for (const { name, rules } of chapters)
      describe(name, () => {
        for (const rule of rules.filter((each) => isSelected(each, options)))
          test(`${rule.number} ${rule.sentence}`, async (t) => {
            const { reason, failure } = await check(rule);
            if (reason !== undefined) t.skip(reason);
            if (failure !== undefined) throw new Error(reportOf(rule, failure));
          });
      });
  });
}

/** Returns true for an http: or https: URL without a user, a query and a fragment. */
export function isPetstoreUrl({ protocol, username, password, search, hash }: URL): boolean {
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === '';
}

function serverOf({ url, key, level = 'full' }: PetstoreUnderTest): TestedServer {
  const address = new URL(url);
  if (!isPetstoreUrl(address))
    throw new TypeError(
      'url must be a URL such as http://127.0.0.1:3000/v1, without user, query and fragment',
    );
  return new TestedServer(address, key, level);
}

/**
 * Checks that the server accepts the key and has pets at the base path.
 *
 * @throws UnusableServer if not, or if no server responds
 */
async function checkUsable(server: TestedServer): Promise<void> {
  const { href } = server.url;
  const response = await server.request('GET', '/pets?limit=1').catch((error: unknown) => {
    const reason = error instanceof Mismatch ? error.came : reasonOf(error);
    const hasResponded = error instanceof Mismatch && error.exchange.came !== '';
    const hint = /certificate|self.signed/i.test(reason)
      ? 'set NODE_EXTRA_CA_CERTS to the certificate of its issuer'
      : hasResponded
        ? 'give the URL of a petstore'
        : 'start it, or give the URL on which it listens';
    throw new UnusableServer(
      `no ${hasResponded ? 'petstore' : 'server'} responds at ${href} (${reason}); ${hint}`,
    );
  });

  const { status } = response;
  const request = `GET ${server.basePath}/pets is ${status}`;
  if (status === 401 || status === 403)
    throw new UnusableServer(`${href} refuses the key (${request}); give a valid one`);
  if (status === 404)
    throw new UnusableServer(
      `${href} has no pets there (${request}); give its base path in the URL`,
    );
}

/** Returns true if a rule has checks at the level, and is not left out for its time. */
function isSelected(
  rule: Rule,
  { level = 'full', slow = false }: Pick<PetstoreUnderTest, 'level' | 'slow'>,
): boolean {
  return checksOf(rule, level).length > 0 && (slow || !rule.isSlow);
}

/** Returns the checks of a rule at a level and the levels before it. */
function checksOf(rule: Rule, level: Level) {
  return levels.slice(0, levels.indexOf(level) + 1).flatMap((each) => rule[each] ?? []);
}

type Outcome = Pick<Verdict, 'outcome' | 'reason' | 'failure'>;

/** Returns a function that checks one rule. If a check ends the server, later rules are untried. */
function ruleChecker(server: TestedServer): (rule: Rule) => Promise<Outcome> {
  let endedBy: string | undefined;

  return async (rule) => {
    if (endedBy !== undefined)
      return {
        outcome: 'untried',
        reason: `the server no longer responds since the check of ${endedBy}`,
      };

    const outcome = await outcomeOf(rule, server);
    if (outcome.failure !== undefined && !(await responds(server))) endedBy = rule.number;
    return outcome;
  };
}

/** Returns true if the server sends any HTTP response. */
function responds(server: TestedServer): Promise<boolean> {
  return server.request('GET', '/pets?limit=1').then(
    () => true,
    () => false,
  );
}

/** Checks one rule. Any error of the check becomes an outcome. */
async function outcomeOf(rule: Rule, server: TestedServer): Promise<Outcome> {
  try {
    for (const check of checksOf(rule, server.level)) await check(server);
    return { outcome: 'passed' };
  } catch (error) {
    if (error instanceof Untried) return { outcome: 'untried', reason: error.message };
    return { outcome: 'failed', failure: failureOf(error) };
  }
}

/** Returns the evidence of a failed check. An unexpected error stands in for the response. */
function failureOf(error: unknown): RuleFailure {
  if (error instanceof Mismatch) {
    const { sent, came, expected, exchange } = error;
    const sentBytes = exchange.sent;
    return { sent, came, expected, sentBytes, cameBytes: shownOf(exchange.came) };
  }

  const { sent, came } = error instanceof NoResponse ? error : { sent: '', came: '' };
  return {
    sent: summaryOf(sent),
    came: reasonOf(error),
    expected: 'an HTTP response',
    sentBytes: sent,
    cameBytes: came,
  };
}

/** Returns a copy of the start of a response, so that the rest can be freed. */
function shownOf(bytes: string): string {
  if (bytes.length <= maxShownBytes) return bytes;
  return Buffer.from(bytes.slice(0, maxShownBytes), 'latin1').toString('latin1');
}

/** Returns the message of a failed test: rule, cost, and both HTTP messages, cut if long. */
function reportOf({ number, sentence, cost }: Rule, failure: RuleFailure): string {
  const shown = (bytes: string): string => {
    const text = Buffer.from(bytes.slice(0, 2_000), 'latin1').toString('utf8');
    return text.replace(/^/gm, '    ') + (bytes.length > 2_000 ? '…' : '');
  };

  return [
    `${number} ${sentence}: sent ${failure.sent}, got ${failure.came}`,
    `  expected: ${failure.expected}`,
    `  cost: ${cost}`,
    `  request:\n${shown(failure.sentBytes)}`,
    `  response:\n${shown(failure.cameBytes)}`,
  ].join('\n');
}
