// Tests C73: setting the machine's clock while a server runs and between two starts. A preloaded
// module simulates the machine's clock.
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { pathToFileURL } from 'node:url';
import { apiKey, type StartedServer } from '../support/process.js';
import { testInFolder, type WorkingFolder } from '../support/working-folder.js';

const dayMs = 86_400_000;

/** A module that moves the clock by the milliseconds in the file `offset`. */
const clockModule = `import { readFileSync } from 'node:fs';
const now = Date.now.bind(Date);
const file = new URL('offset', import.meta.url);
Date.now = () => now() + Number(readFileSync(file, 'utf8'));
`;

function start(here: WorkingFolder, storage: string): Promise<StartedServer> {
  const preload = pathToFileURL(here.at('clock.mjs'));
  return here.start(`--storage ${storage}`, { NODE_OPTIONS: `--import ${preload}` });
}

/** Adds a pet, always with the same idempotency key, and returns its id. */
async function addAgain({ url }: StartedServer): Promise<unknown> {
  const response = await fetch(`${url}/v1/pets`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${apiKey}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': 'k',
    },
    body: '{"name":"a","categoryId":1}',
  });
  return JSON.parse(await response.text()).id;
}

const jumps = [0, dayMs, -dayMs, 40 * dayMs, -365 * dayMs];

describe('the machine’s clock', { concurrency: 2 }, () => {
  for (const storage of ['memory:', 'file:pets.jsonl'])
    testInFolder(
      `C73 setting the clock expires no idempotency key of ${storage}`,
      { 'clock.mjs': clockModule, offset: '0' },
      async (here) => {
        const server = await start(here, storage);
        for (const jump of jumps) {
          here.write('offset', `${jump}`);
          assert.equal(await addAgain(server), 1, `${jump}`);
        }
        // The Date header still shows the machine's clock.
        const shown = Date.parse((await server.get('/v1/pets')).headers.get('Date') ?? '');
        assert.ok(shown < Date.now() - 300 * dayMs, `${shown}`);
      },
    );

  testInFolder(
    'C73 setting the clock between two starts expires no idempotency key of a file',
    { 'clock.mjs': clockModule, offset: '0' },
    async (here) => {
      for (const jump of jumps) {
        here.write('offset', `${jump}`);
        const server = await start(here, 'file:pets.jsonl');
        assert.equal(await addAgain(server), 1, `${jump}`);
        await server.end();
      }
    },
  );
});
