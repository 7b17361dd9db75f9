/**
 * Prints the files of dist whose functions a request calls, in the order of their first calls. V8's
 * precise coverage finds the files, and breakpoints find the order.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Session, type Debugger } from 'node:inspector/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { createPetstore, fileStorage } from '../dist/index.js';

const dist = new URL('../dist/', import.meta.url).href;
const pet = '{"name":"Rex","categoryId":1}';
const content = `Content-Type: application/json\r\nContent-Length: ${pet.length}\r\n\r\n${pet}`;
const head = 'HTTP/1.1\r\nHost: petstore\r\nAuthorization: Bearer key\r\n';
const requests = { 'GET /v1/pets/1': `${head}\r\n`, 'POST /v1/pets': `${head}${content}` };

// The sweep of connections runs twice a second and must not be counted, so intervals never fire.
const { setInterval } = globalThis;
Object.assign(globalThis, {
  setInterval: (callback: () => void) => setInterval(callback, 2 ** 30),
});

const session = new Session();
session.connect();
await session.post('Profiler.enable');

/** Returns the functions of dist that `work` calls, as breakpoint locations by file. */
async function calledBy(
  work: () => Promise<void>,
): Promise<ReadonlyMap<string, readonly Debugger.Location[]>> {
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  // Resets the counts.
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
      // An implicit constructor has no breakpoint location.
      return locations.slice(0, 1);
    });
    if (ranges.length > 0) called.set(url.slice(dist.length), (await Promise.all(places)).flat());
  }
  return called;
}

/**
 * Returns the files whose functions `work` calls, in the order of the first calls of a second run.
 */
async function crossedBy(work: () => Promise<void>): Promise<readonly string[]> {
  await session.post('Debugger.enable');
  const called = await calledBy(work);
  const entered = new Set<string>();
  Object.assign(globalThis, { entered });
  for (const [file, locations] of called) {
    for (const location of locations) {
      // The condition records the file, and is false, so that execution does not stop.
      await session.post('Debugger.setBreakpoint', {
        location,
        condition: `!entered.add('${file}')`,
      });
    }
  }
  await work();
  await session.post('Debugger.disable');
  // Files without a breakpoint location come last.
  return [...new Set([...entered, ...called.keys()])];
}

const folder = mkdtempSync(join(tmpdir(), 'petstore-crossings-'));
const petstore = createPetstore({
  keys: ['key'],
  storage: await fileStorage(join(folder, 'pets.jsonl')),
});
const socket = connect((await petstore.listen({ port: 0 })).port, '127.0.0.1');
const send = async (bytes: string): Promise<void> => {
  socket.write(bytes);
  const [response] = await once(socket, 'data');
  assert.match(String(response), /^HTTP\/1\.1 20[01] /);
  // Work after the response belongs to the request too.
  await nextTick();
};
const texts = Object.entries(requests).map(([line, rest]) => [line, `${line} ${rest}`] as const);
for (const [, bytes] of texts.toReversed()) await send(bytes);
for (const [line, bytes] of texts)
  console.log([line, ...(await crossedBy(() => send(bytes)))].join('\n  '));
socket.destroy();
await petstore.close();
rmSync(folder, { recursive: true });
