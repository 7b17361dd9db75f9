/** Compares what a story received with a model: a set of pets that only grows. */
import type { Level } from './levels.js';
import { Mismatch, type ExchangedBytes } from './outcome.js';
import type { RawResponse } from './raw-connection.js';
import type { AddStep, GetStep, ListStep } from './story.js';
import type { StoryEvent, StoryHistory, StoryPet } from './story-run.js';
import {
  differenceFrom,
  headerOf,
  isSuccess,
  jsonOf,
  memberText,
  petsIn,
  type AddedPet,
  type ReceivedPet,
} from './tested-server.js';

/** A response that the model does not allow. */
export interface StoryProblem {
  /** The number of the rule that the response breaks. */
  readonly number: string;
  readonly exchange: ExchangedBytes;
  /** The expected response, in words. */
  readonly expected: string;
  /** The received value, if it says more than the response. */
  readonly came?: string | undefined;
}

/** An event of a kind of step, with a whole response. */
type WholeEvent<Step> = StoryEvent & { readonly step: Step; readonly response: RawResponse };

/** A pet that was added before an event, or seen before it. */
interface KnownPet extends AddedPet {
  /** The time from which each response must show the pet. */
  readonly since: number;
  /** The number in the story; undefined for a pet of an earlier story. */
  readonly number: number | undefined;
}

/** The model of one story. */
export class StoryModel {
  readonly #history: StoryHistory;
  readonly #level: Level;
  readonly #known: readonly KnownPet[];

  /** @param earlier The pets that earlier stories have added. */
  constructor(history: StoryHistory, earlier: readonly AddedPet[], level: Level) {
    this.#history = history;
    this.#level = level;
    const before = earlier.map((pet) => ({ ...pet, since: 0, number: undefined }));
    const own = [...history.pets].flatMap(([number, { added }]) =>
      added === undefined ? [] : [{ ...added, since: this.#firstSight(number, added), number }],
    );
    this.#known = [...before, ...own];
  }

  /** Yields the problems in the order of the responses. */
  *problems(): Generator<StoryProblem> {
    for (const event of this.#history.events) {
      const { step, response } = event;
      if (response instanceof Mismatch) {
        const { exchange, expected, summaries } = response;
        yield { number: 'P3', exchange, expected, came: summaries.came };
      } else if (step.kind === 'add') yield* this.#problemsOfAdd({ ...event, step, response });
      else if (step.kind === 'get') yield* this.#problemsOfGet({ ...event, step, response });
      else yield* this.#problemsOfList({ ...event, step, response });
    }
  }

  *#problemsOfAdd({
    step,
    sentAt,
    cameAt,
    response,
  }: WholeEvent<AddStep>): Generator<StoryProblem> {
    const exchange = response;
    const others = this.#addsOf(step.pet).filter((other) => other.cameAt > sentAt);
    const isInFlight = step.isKeyed && response.status === 409 && others.length > 1;
    if (isInFlight) return;
    const number = step.isKeyed ? 'C57' : this.#ruleOfAdd(step.pet);
    if (!isSuccess(response)) return yield { number, exchange, expected: 'the added pet' };

    const [received] = petsIn(response);
    const pet = this.#history.pets.get(step.pet);
    if (received === undefined || pet === undefined)
      return yield { number: 'C30', exchange, expected: 'the added pet, with its id' };

    const came = differenceFrom({ ...received, draft: pet.draft }, jsonOf(response));
    const expected = `the pet of this request, ${pet.draft.name}`;
    const name = memberText(received, 'name');
    const isOfOther = [...this.#history.pets.values()].some(({ draft }) => draft.name === name);
    if (came !== undefined) yield { number: isOfOther ? 'C31' : 'C30', exchange, expected, came };

    const { added } = pet;
    if (step.isKeyed && added !== undefined && added.response.body !== response.body)
      yield { number: 'C57', exchange, expected: `the first response, ${added.response.body}` };

    const twin = this.#known.find(({ id, number: of }) => id === received.id && of !== step.pet);
    const used = twin && `an id that no other pet has, not that of ${memberText(twin, 'name')}`;
    if (used !== undefined) yield { number: 'C31', exchange, expected: used };
    if (this.#level !== 'full' || added?.response !== response) return;

    for (const { id, number: of } of this.#known) {
      const ended = of === undefined ? 0 : Math.min(...this.#addsOf(of).map((add) => add.cameAt));
      if (of !== step.pet && ended < sentAt && id >= received.id && cameAt > ended)
        yield {
          number: 'C31',
          exchange,
          expected: `an id greater than ${id}`,
          came: `id ${received.id}`,
        };
    }
  }

  *#problemsOfGet({ step, response }: WholeEvent<GetStep>): Generator<StoryProblem> {
    const pet = this.#known.find(({ number }) => number === step.pet);
    if (pet === undefined) return;
    const expected = `the pet ${pet.id} as it was added`;
    if (!isSuccess(response))
      return yield { number: this.#lossOf(pet) ?? 'C34', exchange: response, expected };

    const came = differenceFrom(pet, jsonOf(response));
    if (came !== undefined) yield { number: 'C34', exchange: response, expected, came };
  }

  *#problemsOfList({ step, sentAt, response }: WholeEvent<ListStep>): Generator<StoryProblem> {
    const exchange = response;
    const { status, limit = 20 } = step;
    const number = status === undefined ? 'S1' : 'C7';
    const list = jsonOf(response);
    if (!isSuccess(response) || !Array.isArray(list))
      return yield { number, exchange, expected: '200 and a list' };
    if (list.length > limit)
      yield {
        number: 'S2',
        exchange,
        expected: `at most ${limit} pets`,
        came: `${list.length} pets`,
      };

    const entries = petsIn(response);
    const ids = entries.map(({ id }) => id);
    const [twice] = ids.filter((id, at) => ids.indexOf(id) !== at);
    if (twice !== undefined) yield { number, exchange, expected: `the pet ${twice} once` };

    const other = entries.find(
      ({ members }) => status !== undefined && members.get('status') !== status,
    );
    if (other !== undefined)
      yield {
        number: 'C7',
        exchange,
        expected: `only pets of status ${status}`,
        came: `the pet ${other.id} of status ${memberText(other, 'status')}`,
      };

    const after = this.#known.find((pet) => step.after !== undefined && pet.number === step.after);
    yield* this.#problemsOfOrder(response, entries, after?.id);

    const last = ids.at(-1);
    for (const pet of this.#known) {
      const entry = entries.find(({ id }) => id === pet.id);
      const came = entry && differenceFrom(pet, new Map(entry.members));
      const expected = `the pet ${pet.id} as it was added`;
      if (came !== undefined) yield { number, exchange, expected, came };

      const isAfter = after === undefined || pet.id > after.id;
      const isMeant = status === undefined || pet.members.get('status') === status;
      // Only by the contract is a full page in the order of ids.
      const isReached =
        list.length < limit || (this.#level === 'full' && last !== undefined && pet.id < last);
      if (entry !== undefined || !isMeant || !isAfter || pet.since >= sentAt) continue;
      if (isReached)
        yield {
          number: this.#lossOf(pet) ?? (after === undefined ? number : 'C6'),
          exchange,
          expected: `the pet ${pet.id}, ${memberText(pet, 'name')}, which was added before`,
          came: 'a list without it',
        };
      else if (this.#level === 'full' && headerOf(response, 'Link') === undefined)
        yield { number: 'C6', exchange, expected: `a Link to the page of the pet ${pet.id}` };
    }
  }

  /** Yields what is wrong with the order of a list, which only the contract promises. */
  *#problemsOfOrder(
    exchange: RawResponse,
    entries: readonly ReceivedPet[],
    after: bigint | undefined,
  ): Generator<StoryProblem> {
    if (this.#level !== 'full') return;
    for (const [at, { id }] of entries.entries()) {
      const before = entries[at - 1]?.id;
      if (before !== undefined && id <= before)
        yield { number: 'C5', exchange, expected: 'ascending ids', came: `${id} after ${before}` };
      if (after !== undefined && id <= after)
        yield {
          number: 'C6',
          exchange,
          expected: `only ids greater than ${after}`,
          came: `id ${id}`,
        };
    }
  }

  /** Returns the time of the first response that shows a pet. */
  #firstSight(number: number, { id }: AddedPet): number {
    const sights = this.#history.events.filter(({ step, response }) => {
      if (response instanceof Mismatch || !isSuccess(response)) return false;
      return step.kind === 'add'
        ? step.pet === number
        : petsIn(response).some((pet) => pet.id === id);
    });
    return Math.min(...sights.map(({ cameAt }) => cameAt));
  }

  #addsOf(number: number): readonly StoryEvent[] {
    return this.#history.events.filter(({ step }) => step.kind === 'add' && step.pet === number);
  }

  /**
   * Returns the number of the rule on adding a pet if no list and no GET shows the pet. Undefined
   * if a later response shows it.
   */
  #lossOf({ id, number, since }: KnownPet): string | undefined {
    const later = this.#history.events.filter(({ sentAt }) => sentAt > since);
    const isShown = later.some(
      ({ step, response }) =>
        step.kind !== 'add' &&
        !(response instanceof Mismatch) &&
        isSuccess(response) &&
        petsIn(response).some((pet) => pet.id === id),
    );
    const isAsked = later.some(({ step }) => step.kind === 'get' && step.pet === number);
    if (isShown || !isAsked || number === undefined) return undefined;

    return this.#ruleOfAdd(number);
  }

  /** Returns the number of the rule on adding a pet: C31 if others were in flight, else C30. */
  #ruleOfAdd(number: number): 'C30' | 'C31' {
    const own = this.#addsOf(number);
    const isTogether = this.#history.events.some(
      ({ step, sentAt, cameAt }) =>
        step.kind === 'add' &&
        step.pet !== number &&
        own.some((add) => sentAt < add.cameAt && cameAt > add.sentAt),
    );
    return isTogether ? 'C31' : 'C30';
  }
}

/** Returns the pets of a history that were added. */
export function addedPetsOf({ pets }: StoryHistory): readonly AddedPet[] {
  return [...pets.values()].flatMap(({ added }: StoryPet) => (added === undefined ? [] : [added]));
}
