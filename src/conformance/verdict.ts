/** The options and the results of a run of `verifyPetstore`. */
import type { Level } from './levels.js';

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
   * The numbers of the rules to check. Without it, all rules of the level are checked.
   */
  readonly only?: readonly string[];
  /**
   * The category of the pets that are added, in digits.
   *
   * @defaultValue `5`
   */
  readonly category?: string;
  /**
   * The time in seconds for one response.
   *
   * @defaultValue 10
   */
  readonly timeoutSeconds?: number;
  /**
   * True to check the rules on timeouts too, which takes half a minute.
   *
   * @defaultValue false
   */
  readonly slow?: boolean;
  /**
   * The number of stories, which are random requests of several clients that are compared with a
   * model. 0 runs none.
   *
   * @defaultValue 20
   */
  readonly stories?: number;
  /**
   * The seed of the stories, an integer from 0 to 2^32 - 1. The same seed repeats the same stories.
   *
   * @defaultValue a random one, which the evidence of a story shows
   */
  readonly seed?: number;
  /** Called with a sentence for each adaptation of the run to the server. */
  readonly onNote?: (note: string) => void;
}

/** A rule as a list of rules shows it. */
export interface RuleDescription {
  /** The number of the rule in docs/contract.md, such as `C10`. */
  readonly number: string;
  /** The behaviour of a correct server, as a sentence without its full stop. */
  readonly sentence: string;
  /** The name of the chapter of the rule. */
  readonly chapter: string;
  /** The harm to a client if the rule is broken, as a sentence without its full stop. */
  readonly cost: string;
  /** The lowest level at which the rule is checked. */
  readonly level: Level;
}

/** The outcome of one rule. */
export interface Verdict extends RuleDescription, RuleOutcome {}

/** A rule with the sources of its behaviour, in the order of its checks. */
export interface ListedRule extends RuleDescription {
  /** The specification, sections of RFCs, and docs/contract.md. */
  readonly sources: readonly string[];
}

/** The error for a server on which no rule can be checked. Its message is one line. */
export class UnusableServer extends Error {
  override readonly name = 'UnusableServer';
  /** True if no server responds; false if it refuses the key or the base path. */
  readonly isUnreachable: boolean;

  constructor(message: string, isUnreachable: boolean) {
    super(message);
    this.isUnreachable = isUnreachable;
  }
}

/** A request and a response that break a rule. None of its texts contains the key. */
export interface RuleFailure {
  /** A summary of the request: request line and body, or a value. */
  readonly sent: string;
  /** A summary of the response. */
  readonly came: string;
  /** The expected response, in words. */
  readonly expected: string;
  /**
   * A line for a shell that sends the request, or several lines for the requests of a story. They
   * read the key from `PETSTORE_KEY`.
   */
  readonly command: string;
  /** The bytes of the request; each character is a byte. */
  readonly sentBytes: string;
  /** The bytes of the response, up to the first 65,536; each character is a byte. */
  readonly cameBytes: string;
}

/** The outcome of a rule. */
export interface RuleOutcome {
  /**
   * `warned` if the server does not do what a standard recommends, `untried` if the rule could not
   * be checked, `inapplicable` if it does not concern the server.
   */
  readonly outcome: 'passed' | 'warned' | 'failed' | 'untried' | 'inapplicable';
  /** The source of the rule: the specification, an RFC, or docs/contract.md. */
  readonly source: string;
  /** The reason why the rule is `untried` or `inapplicable`. */
  readonly reason?: string;
  /** The evidence if the rule is `failed` or `warned`. */
  readonly failure?: RuleFailure;
}
