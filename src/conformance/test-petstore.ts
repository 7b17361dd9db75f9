/** Runs the rules of the contract against a server that listens somewhere, ours or not. */
import { before, describe, test } from 'node:test';
import { reasonOf } from '../index.js';
import { adding } from './adding.js';
import { maxShownBytes, NoAnswer } from './raw-connection.js';
import { deprecation } from './deprecation.js';
import { keys } from './authorization.js';
import { listing } from './listing.js';
import { paths } from './paths.js';
import { protocol } from './protocol.js';
import { Mismatch, summaryOf, Untried } from './outcome.js';
import type { Rule } from './rule.js';
import { levels, Server, type Level } from './server-under-test.js';
import { specification } from './specification.js';

const chapters = [specification, listing, paths, adding, deprecation, keys, protocol];

/** A server, and what is asked of it. */
export interface PetstoreUnderTest {
  /**
   * Its address, http: or https:. Its path is the base path, which `/pets` follows; without one it
   * is `/v1`, and `//` says that there is none.
   */
  readonly url: string | URL;
  /** A key that it takes. */
  readonly key: string;
  /**
   * How much is asked of it.
   *
   * @defaultValue `full`
   */
  readonly level?: Level;
  /**
   * Whether rules about waiting are tried too, which take half a minute.
   *
   * @defaultValue false
   */
  readonly slow?: boolean;
}

/** What came of one rule. */
export interface Verdict {
  /** Its number in docs/contract.md, such as `C10`. */
  readonly number: string;
  /** What holds, in a sentence without its full stop. */
  readonly sentence: string;
  /** The heading that it stands under. */
  readonly chapter: string;
  /** What a user loses where it does not hold, in half a sentence. */
  readonly cost: string;
  /** Whether it holds; `untried` where that cannot be seen of this server. */
  readonly outcome: 'passed' | 'failed' | 'untried';
  /** Why it was not tried. */
  readonly reason?: string;
  /** What shows that it does not hold. */
  readonly failure?: RuleFailure;
}

/** An exchange that shows that a rule does not hold. */
export interface RuleFailure {
  /** What was sent, in short: a request line and a body, or a value. */
  readonly sent: string;
  /** What came, in short. */
  readonly came: string;
  /** What should have come. */
  readonly expected: string;
  /** The bytes that were sent; each character is a byte. */
  readonly sentBytes: string;
  /** The bytes that came, at most the first 65,536. */
  readonly cameBytes: string;
}

/** A server that no rule can be tried of. The message says why, in one line. */
export class UnusableServer extends Error {
  override readonly name = 'UnusableServer';
}

/**
 * Tries each rule, one after the other. Some add animals; none needs an empty store, or ids of any
 * kind.
 *
 * @throws UnusableServer where nothing answers at the address, the key is refused, or the base path
 * is not there; TypeError for an address that is none
 */
export async function* verifyPetstore(options: PetstoreUnderTest): AsyncGenerator<Verdict> {
  const server = serverOf(options);
  await refuseUnusable(server);

  const tryRule = trialOf(server);
  for (const { name, rules } of chapters)
    for (const rule of rules)
      if (isAsked(rule, options))
        yield { ...wordsOf(rule), chapter: name, ...(await tryRule(rule)) };
}

/** How many rules {@link verifyPetstore} tries. */
export function countRules(options: Pick<PetstoreUnderTest, 'level' | 'slow'>): number {
  return chapters.flatMap(({ rules }) => rules.filter((rule) => isAsked(rule, options))).length;
}

/**
 * Registers a test with node:test for each rule, named by its number and sentence. A rule that
 * cannot be tried of this server is skipped, and says why.
 */
export function testPetstore(options: PetstoreUnderTest): void {
  const server = serverOf(options);
  const tryRule = trialOf(server);

  describe(`the contract of a petstore at ${server.url.href}`, () => {
    before(() => refuseUnusable(server));

    for (const { name, rules } of chapters)
      describe(name, () => {
        for (const rule of rules.filter((each) => isAsked(each, options)))
          test(`${rule.number} ${rule.sentence}`, async (t) => {
            const { reason, failure } = await tryRule(rule);
            if (reason !== undefined) t.skip(reason);
            if (failure !== undefined) throw new Error(reportOf(rule, failure));
          });
      });
  });
}

/** Whether an address is one of HTTP, with nothing behind its path and no user in front. */
export function isPetstoreUrl({ protocol, username, password, search, hash }: URL): boolean {
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === '';
}

function serverOf({ url, key, level = 'full' }: PetstoreUnderTest): Server {
  const address = new URL(url);
  if (!isPetstoreUrl(address))
    throw new TypeError('url must be an address such as http://127.0.0.1:3000/v1, no more');
  return new Server(address, key, level);
}

/** @throws UnusableServer */
async function refuseUnusable(server: Server): Promise<void> {
  const { href } = server.url;
  const answer = await server.request('GET', '/pets?limit=1').catch((error: unknown) => {
    const reason = error instanceof Mismatch ? error.came : reasonOf(error);
    const hasAnswered = error instanceof Mismatch && error.exchange.came !== '';
    const mend = /certificate|self.signed/i.test(reason)
      ? 'name the certificate of who signed it in NODE_EXTRA_CA_CERTS'
      : hasAnswered
        ? 'give the address of a petstore'
        : 'start it, or give the address where it listens';
    throw new UnusableServer(
      `no ${hasAnswered ? 'petstore' : 'server'} answers at ${href} (${reason}); ${mend}`,
    );
  });

  const { status } = answer;
  const request = `GET ${server.basePath}/pets is ${status}`;
  if (status === 401 || status === 403)
    throw new UnusableServer(`${href} refuses the key (${request}); give one that it takes`);
  if (status === 404)
    throw new UnusableServer(
      `${href} has no animals there (${request}); give its base path in URL`,
    );
}

function isAsked(
  rule: Rule,
  { level = 'full', slow = false }: Pick<PetstoreUnderTest, 'level' | 'slow'>,
): boolean {
  return checksOf(rule, level).length > 0 && (slow || !rule.isSlow);
}

/** What a rule asks for at a level, and at those before it. */
function checksOf(rule: Rule, level: Level) {
  return levels.slice(0, levels.indexOf(level) + 1).flatMap((each) => rule[each] ?? []);
}

const wordsOf = ({ number, sentence, cost }: Rule) => ({ number, sentence, cost });

type Outcome = Pick<Verdict, 'outcome' | 'reason' | 'failure'>;

/** Tries rules of a server one by one. Where one of them ends the server, only that one fails. */
function trialOf(server: Server): (rule: Rule) => Promise<Outcome> {
  let endedBy: string | undefined;

  return async (rule) => {
    if (endedBy !== undefined)
      return { outcome: 'untried', reason: `nothing answers any more since ${endedBy} was tried` };

    const outcome = await outcomeOf(rule, server);
    if (outcome.failure !== undefined && !(await answers(server))) endedBy = rule.number;
    return outcome;
  };
}

/** Whether anything of HTTP comes back from a server. */
function answers(server: Server): Promise<boolean> {
  return server.request('GET', '/pets?limit=1').then(
    () => true,
    () => false,
  );
}

/** Tries one rule; whatever a server does, that is an outcome and no error. */
async function outcomeOf(rule: Rule, server: Server): Promise<Outcome> {
  try {
    for (const check of checksOf(rule, server.level)) await check(server);
    return { outcome: 'passed' };
  } catch (error) {
    if (error instanceof Untried) return { outcome: 'untried', reason: error.message };
    return { outcome: 'failed', failure: failureOf(error) };
  }
}

/** What shows that a rule does not hold; an error that nobody foresaw is shown as what came. */
function failureOf(error: unknown): RuleFailure {
  if (error instanceof Mismatch) {
    const { sent, came, expected, exchange } = error;
    const sentBytes = exchange.sent;
    return { sent, came, expected, sentBytes, cameBytes: shownOf(exchange.came) };
  }

  const { sent, came } = error instanceof NoAnswer ? error : { sent: '', came: '' };
  return {
    sent: summaryOf(sent),
    came: reasonOf(error),
    expected: 'an answer',
    sentBytes: sent,
    cameBytes: came,
  };
}

/** Returns the beginning of a response, in a text of its own so that the rest can be freed. */
function shownOf(bytes: string): string {
  if (bytes.length <= maxShownBytes) return bytes;
  return Buffer.from(bytes.slice(0, maxShownBytes), 'latin1').toString('latin1');
}

/** What a failed test says: the rule, what it costs, and both messages, of which pages are cut. */
function reportOf({ number, sentence, cost }: Rule, failure: RuleFailure): string {
  const shown = (bytes: string): string => {
    const text = Buffer.from(bytes.slice(0, 2_000), 'latin1').toString('utf8');
    return text.replace(/^/gm, '    ') + (bytes.length > 2_000 ? '…' : '');
  };

  return [
    `${number} ${sentence}: sent ${failure.sent}, got ${failure.came}`,
    `  should have come: ${failure.expected}`,
    `  what it costs: ${cost}`,
    `  sent:\n${shown(failure.sentBytes)}`,
    `  came:\n${shown(failure.cameBytes)}`,
  ].join('\n');
}
