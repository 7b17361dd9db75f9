/**
 * Prints the files of dist that one request crosses, in the order in which it enters them: those of
 * which V8's precise coverage counts a call of a function between the request and its answer.
 * `test/crossings.test.ts` runs it.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Session, type Debugger } from 'node:inspector/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { createPetstore, fileStorage } from '../dist/index.js';

const dist = new URL('../dist/', import.meta.url).href;
const animal = '{"name":"Rex","categoryId":1}';
const content = `Content-Type: application/json\r\nContent-Length: ${animal.length}\r\n\r\n${animal}`;
const head = 'HTTP/1.1\r\nHost: petstore\r\nAuthorization: Bearer key\r\n';
const requests = { 'GET /v1/pets/1': `${head}\r\n`, 'POST /v1/pets': `${head}${content}` };

// What looks at all connections twice a second is no part of a request: it must not come meanwhile.
const { setInterval } = globalThis;
Object.assign(globalThis, { setInterval: (look: () => void) => setInterval(look, 2 ** 30) });

const session = new Session();
session.connect();
await session.post('Profiler.enable');

/**
 * The functions of dist that are called while this goes on, by file, each by where it can be
 * halted.
 */
async function calledBy(
  work: () => Promise<void>,
): Promise<ReadonlyMap<string, readonly Debugger.Location[]>> {
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  // Sets the counts to zero.
  await session.post('Profiler.takePreciseCoverage');
  await work();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  await session.post('Profiler.stopPreciseCoverage');
  const called = new Map<string, readonly Debugger.Location[]>();
  for (const { scriptId, url, functions } of result.filter((script) =>
    script.url.startsWith(dist),
  )) {
    const { scriptSource } = await session.post('Debugger.getScriptSource', { scriptId });
    const placeOf = (offset: number): Debugger.Location => {
      const lines = scriptSource.slice(0, offset).split('\n');
      return { scriptId, lineNumber: lines.length - 1, columnNumber: lines.at(-1)?.length ?? 0 };
    };
    const ranges = functions
      .flatMap((each) => each.ranges.slice(0, 1))
      .filter(({ count }) => count > 0);
    const places = ranges.map(async ({ startOffset, endOffset }) => {
      const within = {
        start: placeOf(startOffset),
        end: placeOf(endOffset),
        restrictToFunction: true,
      };
      const { locations } = await session.post('Debugger.getPossibleBreakpoints', within);
      // The constructor of a class that writes none can be halted nowhere.
      return locations.slice(0, 1);
    });
    if (ranges.length > 0) called.set(url.slice(dist.length), (await Promise.all(places)).flat());
  }
  return called;
}

/**
 * The files of which functions are called while this goes on, in the order of their first calls in
 * its second run.
 */
async function crossedBy(work: () => Promise<void>): Promise<readonly string[]> {
  await session.post('Debugger.enable');
  const called = await calledBy(work);
  const entered = new Set<string>();
  Object.assign(globalThis, { entered });
  for (const [file, locations] of called) {
    for (const location of locations) {
      // Its condition notes the file, and being false halts nobody.
      await session.post('Debugger.setBreakpoint', {
        location,
        condition: `!entered.add('${file}')`,
      });
    }
  }
  await work();
  await session.post('Debugger.disable');
  // One that could not be halted comes last.
  return [...new Set([...entered, ...called.keys()])];
}

const folder = mkdtempSync(join(tmpdir(), 'petstore-crossings-'));
const petstore = createPetstore({
  keys: ['key'],
  storage: await fileStorage(join(folder, 'pets.jsonl')),
});
const socket = connect((await petstore.listen({ port: 0 })).port, '127.0.0.1');
const ask = async (bytes: string): Promise<void> => {
  socket.write(bytes);
  const [answer] = await once(socket, 'data');
  assert.match(String(answer), /^HTTP\/1\.1 20[01] /);
  // What is done once the answer has left belongs to the request as well.
  await turn();
};
const texts = Object.entries(requests).map(([line, rest]) => [line, `${line} ${rest}`] as const);
for (const [, bytes] of texts.toReversed()) await ask(bytes);
for (const [line, bytes] of texts)
  console.log([line, ...(await crossedBy(() => ask(bytes)))].join('\n  '));
socket.destroy();
await petstore.close();
rmSync(folder, { recursive: true });
