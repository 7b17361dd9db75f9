/**
 * Stories find faults that no single request shows: what several clients do at the same time, and
 * sequences that nobody has thought of. They run once in a run, and at most one rule is broken by
 * them.
 */
import { performance } from 'node:perf_hooks';
import { Mismatch, summaryOf, Untried } from './outcome.js';
import { shorterForms, storyOf, type Story, type StoryFeatures } from './story.js';
import { addedPetsOf, StoryModel, type StoryProblem } from './story-model.js';
import { runStory, type StoryEvent, type StoryHistory } from './story-run.js';
import { isSuccess, type AddedPet, type TestedServer } from './tested-server.js';

/** The time after which no further story begins, in milliseconds: in all, or for each story. */
const minBudgetMs = 10_000;
const msPerStory = 100;

/** The time and the number of runs to find a shorter story. */
const shorteningMs = 5_000;
const maxShorterRuns = 60;

/** The runs of one shorter form, because a race does not show each time. */
const runsOfForm = 2;

/** The rules of which one explains what a story finds, if it is broken. */
const causes = ['P3', 'S1', 'S2', 'C30', 'C19', 'C23', 'C25', 'C7', 'C34', 'C31'];

/** A rule that the stories break. */
interface StoryFinding {
  readonly number: string;
  readonly mismatch: Mismatch;
}

const findings = new WeakMap<TestedServer, Promise<StoryFinding | undefined>>();

/**
 * Runs the stories, unless they have run, and expects them to break another rule or none.
 *
 * @param number The number of the rule.
 * @throws Mismatch if the stories break the rule
 * @throws Untried if the server limits the rate for too long
 */
export async function expectStories(server: TestedServer, number: string): Promise<void> {
  const finding = findings.get(server) ?? findingOf(server);
  findings.set(server, finding);
  const found = await finding;
  if (found?.number === number) throw found.mismatch;
}

/** A story that has run, and what is wrong with it. */
interface FailedStory {
  readonly history: StoryHistory;
  readonly problem: StoryProblem;
}

/** Runs a story. Returns undefined if nothing is wrong. */
type Attempt = (story: Story) => Promise<FailedStory | undefined>;

/** Runs the stories up to the first that breaks a rule, and shortens it. */
async function findingOf(server: TestedServer): Promise<StoryFinding | undefined> {
  const { count, seed } = server.stories;
  if (count === 0) return undefined;

  const features = await featuresOf(server);
  const earlier: AddedPet[] = [];
  const attempt: Attempt = async (story) => {
    const history = await runStory(server, story, features.hasGet);
    const { value: problem } = new StoryModel(history, earlier, server.level).problems().next();
    if (problem !== undefined) return { history, problem };
    earlier.push(...addedPetsOf(history));
    return undefined;
  };

  const since = performance.now();
  for (let number = 1; number <= count; number++) {
    const failed = await attempt(storyOf(seed, number, features));
    if (failed !== undefined) {
      const shortest = await shortened(failed, attempt);
      const counts = [shortest, failed].map(({ history }) => history.story.flat().length);
      const what = `story ${number} of seed ${seed}, shortened to ${counts.join(' of ')} requests`;
      return { number: shortest.problem.number, mismatch: mismatchOf(shortest, what) };
    }
    if (performance.now() - since > Math.max(minBudgetMs, count * msPerStory) && number < count) {
      server.note(`only ${number} of ${count} stories ran, because the server is slow`);
      break;
    }
  }
  return undefined;
}

/** Returns what the server supports in addition to the specification. */
async function featuresOf(server: TestedServer): Promise<StoryFeatures> {
  const isFull = server.level === 'full';
  const hasKeys =
    isFull &&
    isSuccess(await server.post(server.json(), [`Idempotency-Key: ${server.runId}-stories`]));
  return { hasGet: !(await server.isGetPetGone()), hasKeys, hasAfter: isFull };
}

/** Returns the shortest form of a story that still breaks the same rule, as far as time allows. */
async function shortened(failed: FailedStory, attempt: Attempt): Promise<FailedStory> {
  const deadline = performance.now() + shorteningMs;
  let runs = 0;
  let shortest = failed;

  const shorter = async (): Promise<FailedStory | undefined> => {
    for (const form of shorterForms(shortest.history.story))
      for (let times = 0; times < runsOfForm; times++) {
        if (performance.now() > deadline || runs++ >= maxShorterRuns) return undefined;
        const again = await attempt(form);
        if (again?.problem.number === failed.problem.number) return again;
      }
    return undefined;
  };
  try {
    for (let next = await shorter(); next !== undefined; next = await shorter()) shortest = next;
  } catch (error) {
    // A rate limit ends the search.
    if (!(error instanceof Untried)) throw error;
  }
  return shortest;
}

/** Returns the mismatch of a story, with its requests up to the one with the wrong response. */
function mismatchOf({ history, problem }: FailedStory, what: string): Mismatch {
  const { exchange, expected, came } = problem;
  const { events, story } = history;
  const exchangeOf = ({ response }: StoryEvent) =>
    response instanceof Mismatch ? response.exchange : response;
  const last = events.find((event) => exchangeOf(event) === exchange)?.round ?? story.length;
  const rounds = Array.from({ length: Math.min(last + 1, story.length) }, (_, round) =>
    events.filter((event) => event.round === round).map((event) => exchangeOf(event).sent),
  );
  if (last === story.length) rounds.push([exchange.sent]);
  const sent = `${summaryOf(exchange.sent)} (${what})`;
  return new Mismatch(exchange, expected, { sent, came, rounds }, causes);
}
