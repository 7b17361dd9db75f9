/**
 * Pets with unusual members, which the list shows before it has more than a page. The specification
 * has no way to list a pet that is not on the first page.
 */
import { expect } from './outcome.js';
import {
  differenceFrom,
  isSuccess,
  petsIn,
  toDraft,
  type AddedPet,
  type JsonDraft,
  type SearchResult,
  type TestedServer,
} from './tested-server.js';

/** The rules that the pets are for. */
type SampledRule = 'C19' | 'C23' | 'C25';

interface Sample {
  readonly pets: Readonly<Record<SampledRule, readonly AddedPet[]>>;
  readonly list: SearchResult;
}

/** Categories at the limits of the range, and of what a double holds exactly. */
export const exactCategories = [
  '9007199254740993',
  '-9007199254740993',
  '9007199254740992',
  '999999999999999',
  '9999999999999999',
  '9223372036854775807',
  '-9223372036854775808',
] as const;

/** Names that some servers change, without the text that makes them unique. */
export const changedNames = [
  'Tüm',
  '猫',
  '🐈',
  'a "b" \\c\n/',
  "<b> & 'c'",
  '  blanks  ',
  '\t\ttabs\n',
  'e\u0301',
  'ﬁ½',
  '\u200d\u200b',
  'a%20b%41+c',
  '{{x}} $1 %s',
  'Null',
  '007',
] as const;

const samples = new WeakMap<TestedServer, Promise<Sample>>();

/** Adds the pets and reads the list, unless that was done before. */
export function readSample(server: TestedServer): Promise<Sample> {
  const sample = samples.get(server) ?? sampleOf(server);
  samples.set(server, sample);
  return sample;
}

async function sampleOf(server: TestedServer): Promise<Sample> {
  const add = async (drafts: readonly JsonDraft[]): Promise<readonly AddedPet[]> => {
    const added: AddedPet[] = [];
    for (const given of drafts) {
      const draft = toDraft(server, given);
      const response = await server.post(server.json(draft));
      // The rule itself says what is wrong with a refusal.
      const [pet] = isSuccess(response) ? petsIn(response) : [];
      if (pet !== undefined) added.push({ ...pet, draft });
    }
    return added;
  };

  const pets = {
    C19: await add([{}]),
    C23: await add(exactCategories.slice(0, 2).map((categoryId) => ({ categoryId }))),
    C25: await add(changedNames.map((name) => ({ name: uniqueNameOf(server, name) }))),
  };
  return { pets, list: await server.search(Object.values(pets).flat()) };
}

/** Returns a name as JSON text, with a unique text in the middle of two equal ones. */
export function uniqueNameOf(server: TestedServer, name: string): string {
  return JSON.stringify(`${name}${JSON.parse(server.uniqueName())}${name}`);
}

/** Expects the pets for a rule to be in the list as they were added. */
export async function expectSample(server: TestedServer, rule: SampledRule): Promise<void> {
  const { pets, list } = await readSample(server);
  for (const pet of pets[rule])
    for (const { members } of list.found.filter(({ id }) => id === pet.id)) {
      const difference = differenceFrom(pet, new Map(members));
      const expected = `the pet ${pet.id} as it was added`;
      const causes = ['P3', 'C30', 'S1', 'S2', 'C31'];
      expect(list.response, difference === undefined, expected, difference, undefined, causes);
    }
}
