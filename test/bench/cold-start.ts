/** How long it takes from a process's start to its first 200 (issue 4, item 5). */
import { request } from 'node:http';
import { bare, bareAgain, peers, petstore, type Contestant } from './contestants.js';
import { median } from './figures.js';
import { apiKey } from './operations.js';
import type { Part } from './part.js';
import type { Session } from './session.js';
import { decimal } from './words.js';

const rounds = 20;

/** Starts all in turn, again and again. */
export const coldStart: Part = {
  name: 'cold-start',
  title: 'Cold start',
  measure: async ({ session, say }) => {
    const folder = session.folder();
    const ours = [
      petstore('memory:', 'petstore, memory'),
      petstore(`file:${folder}/pets.jsonl`, 'petstore, file'),
    ];
    const times = [bare, bareAgain, ...ours, ...peers].map((contestant) => ({
      contestant,
      ms: new Array<number>(),
    }));
    for (let round = 0; round < rounds; round++) {
      say(`cold start ${round + 1} of ${rounds}`);
      for (const { contestant, ms } of times) ms.push(await firstAnswerMs(session, contestant));
    }
    const reference = times[0]?.ms ?? [];
    const rows = times.map(({ contestant, ms }) => {
      const ratios = ms.map((own, round) => own / (reference[round] ?? NaN));
      return [
        contestant.name,
        decimal(median(ms), 0),
        decimal(Math.min(...ms), 0),
        decimal(median(ratios)),
      ];
    });
    const note = `${rounds} starts each, in turn; the ratio is the median of all rounds. Below 1.3 is what issue 4 wants.`;
    return {
      tables: [
        {
          title: 'Start to the first 200',
          note,
          head: ['', 'median ms', 'least ms', 'by bare'],
          rows,
        },
      ],
    };
  },
};

async function firstAnswerMs(outer: Session, { command }: Contestant): Promise<number> {
  const session = outer.within();
  const startedAt = performance.now();
  const { url } = await session.run(command).line('url');
  const status = await statusOf(`${url}/v1/pets`);
  const ms = performance.now() - startedAt;
  await session.end();
  if (status !== 200) throw new Error(`${command.join(' ')} answered ${status}`);
  return ms;
}

function statusOf(url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      { agent: false, headers: { Authorization: `Bearer ${apiKey}` } },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    );
    sent.once('error', reject).end();
  });
}
