/** Prepares a run: the server, its rules, and what the specification leaves open. */
import { randomInt } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { reasonOf } from '../index.js';
import { Mismatch } from './outcome.js';
import { defaultPatienceMs, type RawResponse } from './raw-connection.js';
import { checksOf, levelOf, type Rule } from './rule.js';
import { chapters, type RuleRunner } from './rule-runner.js';
import { isSuccess, jsonOf, TestedServer } from './tested-server.js';
import { UnusableServer, type PetstoreUnderTest, type RuleDescription } from './verdict.js';

/** Returns the numbers of all rules, for a message about an unknown one. */
export function ruleNumbers(): readonly string[] {
  return chapters.flatMap(({ rules }) => rules.map(({ number }) => number));
}

/** Returns true for an http: or https: URL without a user, a query and a fragment. */
export function isPetstoreUrl({ protocol, username, password, search, hash }: URL): boolean {
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === '';
}

/** A rule that a run checks. */
export interface SelectedRule {
  readonly rule: Rule;
  readonly description: RuleDescription;
}

/** The options that select rules. */
type RuleSelection = Pick<PetstoreUnderTest, 'level' | 'slow' | 'only'>;

/** Returns the rules that a run checks, in their order. */
export function selectedRules({
  level = 'full',
  slow = false,
  only,
}: RuleSelection): readonly SelectedRule[] {
  const isSelected = (rule: Rule) =>
    checksOf(rule, level).length > 0 &&
    (only === undefined ? slow || !rule.isSlow : only.includes(rule.number));

  return chapters.flatMap(({ name: chapter, rules }) =>
    rules.filter(isSelected).map((rule) => {
      const { number, cost } = rule;
      const sentence = (level === 'full' ? undefined : rule.sentenceBelowFull) ?? rule.sentence;
      return { rule, description: { number, sentence, chapter, cost, level: levelOf(rule) } };
    }),
  );
}

/**
 * Returns the server to check.
 *
 * @throws TypeError if an option is not valid
 */
export function testedServerOf({
  url,
  key,
  level = 'full',
  category = '5',
  timeoutSeconds = defaultPatienceMs / 1_000,
  only = [],
  stories: count = 20,
  seed = randomInt(2 ** 32),
  onNote = () => undefined,
}: PetstoreUnderTest): TestedServer {
  const address = new URL(url);
  if (!isPetstoreUrl(address))
    throw new TypeError(
      'url must be a URL such as http://127.0.0.1:3000/v1, without user, query and fragment',
    );
  if (!/^-?\d{1,19}$/.test(category)) throw new TypeError('category must be an integer in digits');
  if (!(timeoutSeconds > 0 && timeoutSeconds <= 3_600))
    throw new TypeError('timeoutSeconds must be a number over 0 and up to 3600');
  if (!Number.isInteger(count) || count < 0 || count > 10_000)
    throw new TypeError('stories must be an integer from 0 to 10000');
  if (!Number.isInteger(seed) || seed < 0 || seed >= 2 ** 32)
    throw new TypeError('seed must be an integer from 0 to 4294967295');
  const unknown = only.find((number) => !ruleNumbers().includes(number));
  if (unknown !== undefined) throw new TypeError(`only must have numbers of rules, not ${unknown}`);

  const patienceMs = timeoutSeconds * 1_000;
  return new TestedServer({
    url: address,
    key,
    level,
    category,
    patienceMs,
    stories: { count, seed },
    onNote,
  });
}

/**
 * Checks that the server accepts the key and has pets at the base path, and adapts the run to what
 * the specification leaves open. If the list cannot be read at all, breaks one rule.
 *
 * @throws UnusableServer if the key or the base path is wrong, or if no server responds
 */
export async function prepare(
  server: TestedServer,
  runner: RuleRunner,
  options: RuleSelection,
): Promise<void> {
  const { href } = server.url;
  try {
    const since = performance.now();
    const first = await server.request('GET', '/pets?limit=1');
    server.responseMs = performance.now() - since;
    noteDuration(server, options);
    await server.followRedirect(first);
    const response = first.status < 400 ? await server.request('GET', '/pets?limit=1') : first;

    const { status } = response;
    const request = `GET ${server.basePath}/pets is ${status}`;
    if (status === 401 || status === 403)
      throw new UnusableServer(`${href} refuses the key (${request}); give a valid one`, false);
    if (status === 404 && !isSuccess(await server.post(server.json())))
      throw new UnusableServer(
        `${href} has no pets there (${request}); give its base path in the URL`,
        false,
      );

    const problem = problemWithList(response);
    const mismatch = new Mismatch(response, '200 and a JSON array', { came: problem });
    if (problem !== undefined) {
      const isLimit = status === 400 && isSuccess(await server.request('GET', '/pets'));
      return runner.breakAll(isLimit ? 'S2' : 'S1', mismatch);
    }
    if (!isList(response)) runner.breakRule('S1', mismatch);
    await server.readFirstLists();
    await server.findCategory();
  } catch (error) {
    if (error instanceof UnusableServer) throw error;
    const isMismatch = error instanceof Mismatch;
    if (isMismatch && error.exchange.came !== '') {
      if (!/^HTTP\//.test(error.exchange.came))
        throw new UnusableServer(
          `no HTTP server responds at ${href} (${server.mask.hide(error.summaries.came ?? '')}); ` +
            'give the URL of a petstore',
          true,
        );
      runner.breakAll('P3', error);
      return;
    }

    const reason = isMismatch ? (error.summaries.came ?? '') : reasonOf(error);
    if (isMismatch && !reason.startsWith('no connection')) {
      runner.breakAll('P3', error);
      return;
    }
    const hint = /certificate|self.signed/i.test(reason)
      ? 'set NODE_EXTRA_CA_CERTS to the certificate of its issuer'
      : 'start it, or give the URL on which it listens';
    const shown = server.mask.hide(plainConnection(reason));
    throw new UnusableServer(`no server responds at ${href} (${shown}); ${hint}`, true);
  }
}

/** Returns the reason of a connection that failed, without errno and the address. */
function plainConnection(reason: string): string {
  return reason
    .replace(/^no connection \((.*)\)$/, '$1')
    .replace(/^connect ECONNREFUSED .*$/, 'the connection is refused')
    .replace(/^getaddrinfo .*$/, 'there is no such host');
}

/** The number of requests of a run at each level, about. */
const requestCounts = { specification: 1_000, http: 1_000, full: 2_500 } as const;

/** Tells how long a run will take if the server is slow. */
function noteDuration(server: TestedServer, options: RuleSelection): void {
  const { level, responseMs } = server;
  if (responseMs < 500) return;
  const share = selectedRules(options).length / selectedRules({ level }).length;
  const minutes = Math.ceil((requestCounts[level] * share * responseMs) / 60_000);
  const duration = minutes === 1 ? 'a minute' : `${minutes} minutes`;
  const seconds = (responseMs / 1_000).toFixed(1);
  server.note(
    `a response takes about ${seconds} s, so the run may take ${duration}; ` +
      '--only S1,S2 checks only these rules, and --stories 0 leaves out the stories',
  );
}

/** Describes why a response is not a usable list of pets; undefined if it is one. */
function problemWithList(response: RawResponse): string | undefined {
  const { status, headers, body } = response;
  const [location] = headers.get('location') ?? [];
  if (status >= 300 && status < 400)
    return `a redirect, ${status} to ${location ?? 'no Location'}; give the URL that it leads to`;
  if (/^\s*<(!doctype|html|\?xml)/i.test(body)) return `${status} with an HTML page`;
  if (status >= 500) return `${status}, an error of the server or of a proxy before it`;
  return status >= 400 && status !== 404 ? `${status}` : undefined;
}

/** True if a response is 200 with an array, or with a body that P3 judges. */
function isList(response: RawResponse): boolean {
  const json = jsonOf(response);
  return response.status === 200 && (json === undefined || Array.isArray(json));
}
