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

/** The plugin, with functions that control it in the petstore that uses it (C83). */
export interface FaultsPlugin {
  (host: PluginHost): void;
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

  /** The control of each open petstore; that of the last one stays after its end. */
  const controls: FaultControl[] = [];
  const only = (): FaultControl => {
    const [control, ...others] = controls;
    if (control === undefined) throw refuse('no petstore uses this plugin yet');
    if (others.length === 0) return control;
    throw refuse(`${controls.length} petstores use this plugin; call faultsPlugin() for each`);
  };

  const plugin: Plugin = (host) => {
    const control = new FaultControl(host, first, journalSize);
    controls.push(control);
    host.onClose(() => {
      if (controls.length > 1) controls.splice(controls.indexOf(control), 1);
    });
    host.onStart(() => {
      control.checkFirst(refuseRule);
      host.log('warn', startWarning);
    });
    meetFaults(host, control);
    for (const each of controlRoutes(control)) host.route(each);
    host.describe(describeFaults);
  };
  return Object.assign(plugin, {
    set: (given: readonly FaultRule[], { seed: other }: { readonly seed?: number } = {}) =>
      only().setRules(checkedSet(given, other), refuseRule),
    rules: () => only().rules.rules,
    requests: (filter: RequestFilter = {}) => only().journal.list(matcherOf(filter)),
    reset: async ({ clock }: { readonly clock?: string } = {}) => {
      const control = only();
      const time = clock === undefined ? undefined : parseTime(String(clock));
      if (clock !== undefined && time === undefined) throw refuse(`clock must be ${timeRule}`);
      if (!control.canReset) throw refuse('the storage of this petstore cannot be reset');
      await control.reset(time);
    },
  });
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
