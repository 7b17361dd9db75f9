/** The state of the plugin in one petstore, and the functions that control it. */
import type { AcceptedRequest, PluginHost, RouteSummary } from '../../index.js';
import { Delays } from './carry-out.js';
import type { Fault, Refuse } from './fault.js';
import { RequestJournal } from './request-journal.js';
import { checkMatches } from './rule-checks.js';
import { ActiveRules, type RuleSet } from './rules.js';

/** The paths of the plugin, which meet no fault and are not in the journal. */
export const ownPaths = {
  faults: '/v1/faults',
  reset: '/v1/reset',
  requests: '/v1/requests',
} as const;

const ownPathList: readonly string[] = Object.values(ownPaths);

/** True if the path of a route is one of the plugin. */
export function isOwnPath(path: string | undefined): boolean {
  return path !== undefined && ownPathList.includes(path);
}

/** The rules, the delays and the journal of one petstore. */
export class FaultControl {
  readonly #host: PluginHost;
  readonly #first: RuleSet;
  readonly #rules = new ActiveRules();
  readonly delays = new Delays();
  readonly journal: RequestJournal;

  /** @param first The rules of the start, and after each reset. */
  constructor(host: PluginHost, first: RuleSet, journalSize: number) {
    this.#host = host;
    this.#first = first;
    this.journal = new RequestJournal(journalSize, host.clock);
    this.#rules.set(first);
    host.storage.onReset?.(() => {
      this.#rules.set(first);
      this.journal.clear();
    });
  }

  /** Checks the first rules against the routes. @throws the error of `refuse` */
  checkFirst(refuse: Refuse): void {
    checkMatches(this.#first.rules, this.#faultyRoutes(), refuse);
  }

  /**
   * Replaces all rules, which are checked already, except against the routes.
   *
   * @throws the error of `refuse` for a rule that no request can meet
   */
  setRules(set: RuleSet, refuse: Refuse): void {
    checkMatches(set.rules, this.#faultyRoutes(), refuse);
    this.#rules.set(set);
  }

  /** Returns the rules with their counts. */
  get rules(): RuleSet {
    return this.#rules.toJSON();
  }

  /**
   * Returns the fault that meets a request, if any.
   *
   * @param header The fault of its header.
   */
  faultFor(request: AcceptedRequest, header: Fault | undefined): Fault | undefined {
    return header === undefined ? this.#rules.faultFor(request) : this.#rules.faultOfHeader(header);
  }

  /** True if the storage can be reset. Without `onReset`, a reset would not end delays. */
  get canReset(): boolean {
    const { storage } = this.#host;
    return storage.reset !== undefined && storage.onReset !== undefined;
  }

  /**
   * Resets the store, the rules, the journal and the clock of the petstore.
   *
   * @param clock The time to set, in milliseconds since the epoch; omitted for its own clock.
   */
  async reset(clock?: number): Promise<void> {
    await this.#host.storage.reset?.();
    if (clock !== undefined) this.#host.setClock(clock);
  }

  /** Returns the routes and methods to which faults apply. */
  #faultyRoutes(): readonly RouteSummary[] {
    return this.#host
      .routes()
      .filter(({ path }) => path.startsWith('/v1/') && !isOwnPath(path))
      .map(({ path, methods }) => ({
        path,
        // OPTIONS needs no key.
        methods: methods.filter((method) => method !== 'OPTIONS'),
      }))
      .filter(({ methods }) => methods.length > 0);
  }
}
