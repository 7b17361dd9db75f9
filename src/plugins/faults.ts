/**
 * The plugin `faults`: produces errors, delays and broken connections to test a client. The header
 * `Petstore-Fault` requests a fault for one request, and rules at `/v1/faults` for many requests.
 * `/v1/requests` lists what clients sent, and `/v1/reset` resets the store.
 */
import { parseTime, PetstoreError, timeRule, type Plugin, type PluginHost } from '../index.js';
import {
  carryOut,
  checkRules,
  checkSeed,
  controlRoutes,
  defaultJournalSize,
  describeFaults,
  FaultControl,
  isOwnPath,
  matcherOf,
  maxJournalSize,
  parseFault,
  type Fault,
  type FaultRule,
  type JournalItem,
  type RequestFilter,
  type RuleSet,
} from './faults/index.js';

export {
  faultWords,
  type FaultRule,
  type FaultWord,
  type JournalItem,
  type RequestFilter,
} from './faults/index.js';

/** The options of the plugin. */
export interface FaultsOptions {
  /**
   * The rules in effect from the start, and again after each reset.
   *
   * @defaultValue none
   */
  readonly rules?: readonly FaultRule[];
  /**
   * The seed of the shares of these rules, an integer from 0 to 4,294,967,295.
   *
   * @defaultValue 0
   */
  readonly seed?: number;
  /**
   * The largest number of requests in the journal, from 0 to 10,000.
   *
   * @defaultValue 1000
   */
  readonly journalSize?: number;
}

/** The functions that control the plugin in one store (C83). */
export interface FaultsControl {
  /**
   * Replaces all rules, and their seed.
   *
   * @throws TypeError for a rule that is not valid, or that no request can meet
   */
  set(rules: readonly FaultRule[], options?: { readonly seed?: number }): void;
  /** Returns the rules with their counts. */
  rules(): readonly FaultRule[];
  /**
   * Returns the requests that clients sent, oldest first.
   *
   * @throws TypeError if the filter is not valid
   */
  requests(filter?: RequestFilter): readonly JournalItem[];
  /**
   * Resets the store, the rules and the journal, as `POST /v1/reset`.
   *
   * @param options `clock` sets the petstore's clock, such as `2030-12-06T00:00:00Z`.
   * @throws TypeError if the storage cannot be reset, or the time is not valid
   */
  reset(options?: { readonly clock?: string }): Promise<void>;
}

/** The plugin, with the functions that control it in the petstore that uses it. */
export interface FaultsPlugin extends FaultsControl {
  (host: PluginHost): void;
  /**
   * Returns the functions for the store of an API key's name, with the option `isolate` (C88).
   * They throw a TypeError until a request has used the key.
   */
  forKey(name: string): FaultsControl;
}

/**
 * Lets requests with a valid API key request faults, which look like real ones to the client.
 *
 * @throws TypeError if an option is not valid. If no request can meet a rule, `createPetstore`
 * throws it.
 */
export function faultsPlugin(options: FaultsOptions = {}): FaultsPlugin {
  const { rules = [], seed, journalSize = defaultJournalSize, ...unknown } = options;
  for (const name of Object.keys(unknown))
    throw refuse(`option ${name} is unknown; the options are rules, seed and journalSize`);
  if (!(Number.isInteger(journalSize) && journalSize >= 0 && journalSize <= maxJournalSize))
    throw refuse(`journalSize must be an integer from 0 to ${maxJournalSize}`);
  const first = checkedSet(rules, seed);

  const users = new ControlList();
  const plugin: Plugin = (host) => {
    const control = new FaultControl(host, first, journalSize);
    users.add(control, host);
    host.onStart(() => {
      control.checkFirst(refuseRule);
      if (host.isolatedKey === undefined) host.log('warn', startWarning);
    });
    meetFaults(host, control);
    for (const each of controlRoutes(control)) host.route(each);
    host.describe(describeFaults);
  };
  return Object.assign(plugin, {
    ...functionsOf(() => users.only()),
    forKey: (name: string) => functionsOf(() => users.ofKey(name)),
  });
}

/** The controls of the stores that use one plugin. */
class ControlList {
  readonly #entries: { readonly control: FaultControl; readonly key: string | undefined }[] = [];

  /**
   * Adds the control of a store, and removes it when the store closes. The last control stays, so
   * that a test can read the journal of a closed petstore.
   */
  add(control: FaultControl, { isolatedKey, onClose }: PluginHost): void {
    const entry = { control, key: isolatedKey };
    this.#entries.push(entry);
    onClose(() => {
      if (this.#entries.length > 1) this.#entries.splice(this.#entries.indexOf(entry), 1);
    });
  }

  /** Returns the control of the only petstore. @throws TypeError */
  only(): FaultControl {
    const [first, ...others] = this.#entries;
    if (first === undefined) throw refuse('no petstore uses this plugin yet');
    if (this.#entries.some(({ key }) => key !== undefined))
      throw refuse('each API key has a store of its own; call forKey(NAME)');
    if (others.length === 0) return first.control;
    const count = this.#entries.length;
    throw refuse(`${count} petstores use this plugin; call faultsPlugin() for each`);
  }

  /** Returns the control of the store of an API key's name. @throws TypeError */
  ofKey(name: string): FaultControl {
    const found = this.#entries.find(({ key }) => key === name);
    if (found !== undefined) return found.control;
    throw refuse(`no request has used a key named ${JSON.stringify(name)} with isolate`);
  }
}

/** Returns the functions that control a store. */
function functionsOf(controlOf: () => FaultControl): FaultsControl {
  return {
    set: (rules, { seed } = {}) => controlOf().setRules(checkedSet(rules, seed), refuseRule),
    rules: () => controlOf().rules.rules,
    requests: (filter = {}) => controlOf().journal.list(matcherOf(filter)),
    reset: async ({ clock } = {}) => {
      const control = controlOf();
      const time = clock === undefined ? undefined : parseTime(String(clock));
      if (clock !== undefined && time === undefined) throw refuse(`clock must be ${timeRule}`);
      if (!control.canReset) throw refuse('the storage of this petstore cannot be reset');
      await control.reset(time);
    },
  };
}

/** The message that a start logs, so that the plugin reaches no production unnoticed (C89). */
const startWarning =
  'the plugin faults is on: this server fails on purpose, and any API key may set the rules';

const refuse = (problem: string) => new TypeError(`faultsPlugin: ${problem}`);
const refuseRule = (problem: string) => refuse(`rule ${problem}`);

/** Returns rules that are checked, except against the routes. @throws TypeError */
function checkedSet(rules: unknown, seed: unknown): RuleSet {
  if (!Array.isArray(rules)) throw refuse('rules must be an array');
  return { rules: checkRules(rules, refuseRule), ...checkSeed(seed, refuse) };
}

/** Lets requests meet faults, and writes them to the journal. */
function meetFaults({ around, onReply, onResponseEnd, clock }: PluginHost, control: FaultControl) {
  const { journal, delays } = control;
  around((request, next) => {
    if (isOwnPath(request.route)) return next();
    journal.accept(request);
    if (request.keyName === undefined) return next();

    // Tools send an optional header empty if they have no value for it.
    const header = request.header('petstore-fault') ?? '';
    const fault = control.faultFor(request, header === '' ? undefined : parseHeader(header));
    if (fault === undefined) return next();
    request.reportFault(fault.text);
    return carryOut({ fault, request, next, delays, clock });
  });
  onReply((event, request) => {
    if (!isOwnPath(event.route)) journal.reply(event, request);
  });
  onResponseEnd((event, request) => {
    if (!isOwnPath(event.route)) journal.end(event, request);
  });
}

/** Parses the header `Petstore-Fault`. @throws PetstoreError `invalid_parameter` */
function parseHeader(text: string): Fault {
  return parseFault(
    text,
    (problem) => new PetstoreError('invalid_parameter', `In Petstore-Fault, ${problem}.`),
  );
}
