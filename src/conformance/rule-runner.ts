/** Checks the rules on a server so that one fault breaks one rule. */
import { reasonOf } from '../index.js';
import { adding } from './adding-rules.js';
import { deprecation } from './deprecation-rules.js';
import { keys } from './key-rules.js';
import { listing } from './listing-rules.js';
import { Inapplicable, Mismatch, Untried } from './outcome.js';
import { paths } from './path-rules.js';
import { protocol } from './protocol-rules.js';
import { maxShownBytes, NoResponse } from './raw-connection.js';
import { checksOf, sourceOf, type Rule, type RulePart } from './rule.js';
import { shellLineOf } from './shell-line.js';
import { specification } from './specification-rules.js';
import { expectStories } from './stories.js';
import { toMismatch, type TestedServer } from './tested-server.js';
import type { RuleOutcome } from './verdict.js';

/** All rules, in the order in which they are checked. */
export const chapters = [specification, listing, paths, adding, deprecation, keys, protocol];

/** Checks rules, each once. */
export class RuleRunner {
  readonly #server: TestedServer;
  readonly #rules: ReadonlyMap<string, Rule>;
  /** The outcomes by number; undefined while the rule is checked. */
  readonly #outcomes = new Map<string, RuleOutcome | undefined>();
  /** The reason why no further rule can be checked. */
  #endReason: string | undefined;

  constructor(server: TestedServer) {
    this.#server = server;
    const rules = chapters.flatMap((chapter) => chapter.rules);
    this.#rules = new Map(rules.map((rule) => [rule.number, rule]));
  }

  /** Checks a rule, or returns its outcome if it was checked before. */
  async check(rule: Rule): Promise<RuleOutcome> {
    const before = this.#outcomes.get(rule.number);
    if (before !== undefined) return before;

    this.#outcomes.set(rule.number, undefined);
    const { outcome, isFinal } = await this.#outcomeOf(rule);
    if (isFinal) this.#outcomes.set(rule.number, outcome);
    else this.#outcomes.delete(rule.number);
    return outcome;
  }

  /** Breaks a rule before it is checked. */
  breakRule(number: string, mismatch: Mismatch): void {
    const rule = this.#rules.get(number);
    if (rule === undefined) throw new TypeError(`there is no rule ${number}`);
    const [{ part } = { part: 'full' as const }] = checksOf(rule, 'full');
    this.#outcomes.set(number, this.#failed(rule, part, mismatch));
  }

  /** Breaks a rule before it is checked, and leaves all others untried. */
  breakAll(number: string, mismatch: Mismatch): void {
    this.breakRule(number, mismatch);
    this.#endReason = dependsOn(number);
  }

  /**
   * Checks a rule. The outcome is not final if a rule that may explain it is being checked: that
   * rule is then checked without regard to this one.
   */
  async #outcomeOf(
    rule: Rule,
  ): Promise<{ readonly outcome: RuleOutcome; readonly isFinal: boolean }> {
    const server = this.#server;
    const [firstPart = { part: 'full' as const }] = checksOf(rule, server.level);
    const source = sourceOf(rule, firstPart.part);
    if (this.#endReason !== undefined)
      return final({ outcome: 'untried', source, reason: this.#endReason });

    let part: RulePart = firstPart.part;
    try {
      for (const each of checksOf(rule, server.level)) {
        part = each.part;
        await each.check(server);
      }
      part = firstPart.part;
      if (rule.hasStories) await expectStories(server, rule.number);
      return final({ outcome: 'passed', source });
    } catch (error) {
      const reason = reasonOf(error);
      if (error instanceof Untried) return final({ outcome: 'untried', source, reason });
      if (error instanceof Inapplicable) return final({ outcome: 'inapplicable', source, reason });

      const mismatch = this.#mismatchOf(error);
      const cause = await this.#brokenCauseOf(rule, mismatch);
      if (cause !== undefined)
        return final({ outcome: 'untried', source, reason: dependsOn(cause) });

      const running = mismatch.causes.find(
        (number) => number !== rule.number && this.#isRunning(number),
      );
      if (running !== undefined)
        return {
          outcome: {
            outcome: 'untried',
            source,
            reason: 'depends on a rule that is being checked',
          },
          isFinal: false,
        };
      const { breaks = rule.number } = mismatch;
      const isBroken = this.#outcomes.get(breaks)?.outcome === 'failed';
      if (breaks !== rule.number && (isBroken || !this.#outcomes.has(breaks))) {
        if (!isBroken) this.breakRule(breaks, mismatch);
        return final({ outcome: 'untried', source, reason: dependsOn(breaks) });
      }
      if (!(await this.#responds()))
        this.#endReason ??= `the server no longer responds since the check of ${rule.number}`;
      return final(this.#failed(rule, part, mismatch));
    }
  }

  /** Returns the number of the first broken rule that explains a mismatch. */
  async #brokenCauseOf(rule: Rule, { causes }: Mismatch): Promise<string | undefined> {
    for (const number of causes) {
      const cause = this.#rules.get(number);
      if (cause === undefined || number === rule.number || this.#isRunning(number)) continue;
      const { outcome, reason } = await this.check(cause);
      if (outcome === 'failed') return number;
      // A cause that is not tried has a cause of its own.
      const [, root] = /^depends on (\w+),/.exec(reason ?? '') ?? [];
      if (outcome === 'untried' && root !== undefined && root !== rule.number) return root;
    }
    return undefined;
  }

  #isRunning(number: string): boolean {
    return this.#outcomes.has(number) && this.#outcomes.get(number) === undefined;
  }

  #mismatchOf(error: unknown): Mismatch {
    if (error instanceof Mismatch) return error;
    if (error instanceof NoResponse) return toMismatch(error);
    const exchange = { sent: '', came: '' };
    return new Mismatch(exchange, 'a response that can be checked', { came: reasonOf(error) });
  }

  #failed(rule: Rule, part: RulePart, mismatch: Mismatch): RuleOutcome {
    const { mask, level } = this.#server;
    const { exchange, expected } = mismatch;
    const isWarning = part === 'should' && level === 'http';
    return {
      outcome: isWarning ? 'warned' : 'failed',
      source: sourceOf(rule, part),
      failure: {
        ...mismatch.shown(mask),
        expected: mask.hide(expected),
        command: commandOf(mismatch, this.#server),
        sentBytes: mask.hide(exchange.sent),
        cameBytes: this.#shownBytes(exchange.came),
      },
    };
  }

  /** Returns a copy of the start of a response, so that the rest can be freed. */
  #shownBytes(bytes: string): string {
    const start = this.#server.mask.hide(bytes.slice(0, 2 * maxShownBytes));
    return Buffer.from(start.slice(0, maxShownBytes), 'latin1').toString('latin1');
  }

  /** Returns true if the server sends any HTTP response. */
  async #responds(): Promise<boolean> {
    return this.#server.request('GET', '/pets?limit=1').then(
      () => true,
      (error: unknown) => error instanceof Mismatch && error.exchange.came.startsWith('HTTP/'),
    );
  }
}

/** Returns lines for a shell that repeat the requests of a mismatch. */
function commandOf({ exchange, summaries }: Mismatch, { url, mask }: TestedServer): string {
  const { rounds = [[exchange.sent]] } = summaries;
  const lines = rounds.map((requests) => {
    const commands = requests.filter(Boolean).map((bytes) => shellLineOf(bytes, url, mask));
    return commands.length > 1 ? `(${commands.join(' & ')} & wait)` : commands.join('');
  });
  return lines.filter(Boolean).join('\n');
}

const final = (outcome: RuleOutcome) => ({ outcome, isFinal: true });

/** Returns the reason of a rule that cannot be judged while another rule is broken. */
function dependsOn(number: string): string {
  return `depends on ${number}, which is broken`;
}
