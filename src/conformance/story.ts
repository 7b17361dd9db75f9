/** Stories, which are random requests of several clients, and shorter forms of a story. */
import { petStatuses, type PetStatus } from '../index.js';

/** A request to add a pet. */
export interface AddStep {
  readonly kind: 'add';
  readonly pet: number;
  readonly status: PetStatus | undefined;
  readonly isKeyed: boolean;
}

/** A request for one pet. */
export interface GetStep {
  readonly kind: 'get';
  readonly pet: number;
}

/** A request for a list. */
export interface ListStep {
  readonly kind: 'list';
  readonly status: PetStatus | undefined;
  /** Undefined for a list without `limit`. */
  readonly limit: number | undefined;
  /** The pet after which the list begins. */
  readonly after: number | undefined;
}

/**
 * A request of a story. Pets are numbers within the story. Steps that add the same pet have the
 * same body and the same idempotency key.
 */
export type StoryStep = AddStep | GetStep | ListStep;

/** The steps of each round are sent at the same time. A round begins after the one before it. */
export type Story = readonly (readonly StoryStep[])[];

/** The requests that are allowed in addition to those of the specification. */
export interface StoryFeatures {
  /** True if `GET /pets/{petId}` is served. */
  readonly hasGet: boolean;
  readonly hasKeys: boolean;
  readonly hasAfter: boolean;
}

/** The most pets that a story adds, so that twenty stories fit on one page of the list. */
const maxPets = 4;

/** Pseudorandom numbers that depend on a seed alone. */
class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
    // The first numbers of neighbouring seeds are alike.
    for (let times = 0; times < 4; times++) this.below(2);
  }

  /** Returns an integer from 0 to `bound - 1`. */
  below(bound: number): number {
    this.#state = (Math.imul(this.#state, 1_103_515_245) + 12_345) >>> 0;
    // The low bits of the state have short periods.
    return Math.floor((this.#state / 2 ** 32) * bound);
  }

  /** Returns true once in `times`, on average. */
  oneIn(times: number): boolean {
    return this.below(times) === 0;
  }

  pick<T>(values: readonly T[]): T | undefined {
    return values[this.below(values.length)];
  }
}

/** Returns a story, which is always the same for a seed and a number. */
export function storyOf(seed: number, number: number, features: StoryFeatures): Story {
  const random = new SeededRandom(seed ^ Math.imul(number, 0x9e37_79b1));
  const added: AddStep[] = [];
  /** The number of pets whose response came in a round before. */
  let known = 0;

  const add = (): StoryStep => {
    const again = random.oneIn(2) ? random.pick(added.filter(({ isKeyed }) => isKeyed)) : undefined;
    if (again !== undefined) return again;
    if (added.length === maxPets) return list();
    const step: AddStep = {
      kind: 'add',
      pet: added.length,
      status: random.pick([undefined, ...petStatuses]),
      isKeyed: features.hasKeys && random.oneIn(3),
    };
    added.push(step);
    return step;
  };
  const list = (): StoryStep => ({
    kind: 'list',
    status: random.oneIn(2) ? random.pick(petStatuses) : undefined,
    limit: random.pick([100, 100, 100, 100, 1, 2, 7, undefined]),
    after: features.hasAfter && known > 0 && random.oneIn(2) ? random.below(known) : undefined,
  });
  const step = (): StoryStep => {
    const kind = random.below(5);
    if (kind < 2 || added.length === 0) return add();
    return kind === 2 && known > 0 && features.hasGet
      ? { kind: 'get', pet: random.below(known) }
      : list();
  };

  return Array.from({ length: 3 + random.below(4) }, () => {
    known = added.length;
    return Array.from({ length: 1 + random.below(4) }, step);
  });
}

/** Returns the story without one round, or without one step, for each of them. */
export function shorterForms(story: Story): readonly Story[] {
  const withoutRounds = story.map((_, at) => story.toSpliced(at, 1));
  const withoutSteps = story.flatMap((round, at) =>
    round.length === 1 ? [] : round.map((_, index) => story.with(at, round.toSpliced(index, 1))),
  );
  return [...withoutRounds, ...withoutSteps].map(withKnownPets).filter(({ length }) => length > 0);
}

/** Removes the steps that name a pet which no earlier round adds. */
function withKnownPets(story: Story): Story {
  const known = new Set<number>();
  return story.flatMap((round) => {
    const steps = round.filter(
      (step) =>
        step.kind === 'add' ||
        (step.kind === 'get'
          ? known.has(step.pet)
          : step.after === undefined || known.has(step.after)),
    );
    for (const step of round) if (step.kind === 'add') known.add(step.pet);
    return steps.length === 0 ? [] : [steps];
  });
}
