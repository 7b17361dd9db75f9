/** Carries out a story on a server, and keeps what was sent and received. */
import { randomUUID } from 'node:crypto';
import { petStatuses } from '../index.js';
import { allSettled } from './all-settled.js';
import { Mismatch } from './outcome.js';
import type { RawResponse } from './raw-connection.js';
import type { AddStep, Story, StoryStep } from './story.js';
import { isSuccess, petsIn, toDraft, type AddedPet, type TestedServer } from './tested-server.js';

/** A pet that a story adds. */
export interface StoryPet {
  readonly draft: AddedPet['draft'];
  /** The header lines of its idempotency key. */
  readonly keyLines: readonly string[];
  /** The pet of the first success of adding it; undefined before. */
  readonly added: AddedPet | undefined;
}

/** A request of a story with its response. Times are counts that grow with each event. */
export interface StoryEvent {
  readonly step: StoryStep;
  /** The index of the round; the number of rounds for what is read at the end. */
  readonly round: number;
  readonly sentAt: number;
  readonly cameAt: number;
  /** The response, or the error if no whole response came. */
  readonly response: RawResponse | Mismatch;
}

/** All that was sent and received. */
export interface StoryHistory {
  readonly story: Story;
  /** By their numbers in the story. */
  readonly pets: ReadonlyMap<number, StoryPet>;
  /** In the order of the responses. */
  readonly events: readonly StoryEvent[];
}

/**
 * Carries out a story, and then reads all of its pets by list and by id.
 *
 * @throws Untried if the server limits the rate for too long
 */
export async function runStory(
  server: TestedServer,
  story: Story,
  hasGet: boolean,
): Promise<StoryHistory> {
  const pets = new Map<number, StoryPet>();
  const events: StoryEvent[] = [];
  let now = 0;

  const draftOf = ({ pet, status, isKeyed }: AddStep): StoryPet => {
    const before = pets.get(pet);
    if (before !== undefined) return before;
    const keyLines = isKeyed ? [`Idempotency-Key: ${randomUUID()}`] : [];
    const draft = toDraft(server, status === undefined ? {} : { status });
    const drafted = { draft, keyLines, added: undefined };
    pets.set(pet, drafted);
    return drafted;
  };
  const request = (step: StoryStep): Promise<RawResponse> | undefined => {
    if (step.kind === 'add') {
      const { draft, keyLines } = draftOf(step);
      return server.post(server.json(draft), keyLines);
    }
    const idOf = (pet: number) => pets.get(pet)?.added?.id;
    if (step.kind === 'get') {
      const id = idOf(step.pet);
      return id === undefined ? undefined : server.request('GET', `/pets/${id}`);
    }
    const after = step.after === undefined ? undefined : idOf(step.after);
    const parameters = [
      ...(step.limit === undefined ? [] : [`limit=${step.limit}`]),
      ...(step.status === undefined ? [] : [`status=${step.status}`]),
      ...(after === undefined || after < 0n ? [] : [`after=${after}`]),
    ];
    return server.request(
      'GET',
      `/pets${parameters.length === 0 ? '' : '?'}${parameters.join('&')}`,
    );
  };
  const carryOut = async (step: StoryStep, round: number): Promise<void> => {
    const sentAt = ++now;
    const response = await request(step)?.catch((error: unknown) => {
      if (error instanceof Mismatch) return error;
      throw error;
    });
    if (response === undefined) return;
    events.push({ step, round, sentAt, cameAt: ++now, response });
    if (step.kind !== 'add' || response instanceof Mismatch || !isSuccess(response)) return;

    const pet = draftOf(step);
    const [received] = petsIn(response);
    if (pet.added === undefined && received !== undefined)
      pets.set(step.pet, { ...pet, added: { ...received, draft: pet.draft } });
  };

  for (const [index, round] of story.entries())
    await allSettled(round.map((step) => carryOut(step, index)));
  const lists = [undefined, ...petStatuses].map(
    (status) => ({ kind: 'list', status, limit: 100, after: undefined }) as const,
  );
  const gets = hasGet ? [...pets.keys()].map((pet) => ({ kind: 'get', pet }) as const) : [];
  await allSettled([...lists, ...gets].map((step) => carryOut(step, story.length)));
  return { story, pets, events };
}
