/** Faults that Stryker does not make, each against a promise of ours: they are always tried. */
import type { Change } from './mutants.js';

export const faultsByHand: readonly Change[] = [
  // Ready before what was read is on disk.
  {
    file: 'journal/journal.ts',
    text: 'await disk.datasync(descriptor);\n  return found.end',
    becomes: 'return found.end',
  },
  // 201 before the sync.
  {
    file: 'journal/disk.ts',
    text: 'await disk.datasync(descriptor);',
    becomes: 'void disk.datasync(descriptor);',
  },
  // Not all of the bytes written.
  { file: 'journal/disk.ts', text: 'done += count;', becomes: 'done = bytes.length;' },
  // A sync that is tried again where one has failed.
  {
    file: 'journal/journal.ts',
    text: 'await disk.truncate(descriptor, end).catch(nothing);\n    return becomeBroken(error);',
    becomes: 'await disk.datasync(descriptor);\n    return becomeFull(error);',
  },
  // Visible before it is durable.
  {
    file: 'file/file-storage.ts',
    text: 'const syncMilliseconds = await journal.append(lines);\n    for (const { stored, indexed, keyUse } of records) {\n      catalogue.add(stored.id, stored.json, indexed);',
    becomes:
      'for (const { stored, indexed } of records) catalogue.add(stored.id, stored.json, indexed);\n    const syncMilliseconds = await journal.append(lines);\n    for (const { stored, keyUse } of records) {',
  },
  // A second request that is begun before the first has its answer.
  {
    file: 'http/connection.ts',
    text: 'this.#queue.push(exchange);',
    becomes: 'this.#queue.push(exchange);\n    void this.#shared.service.handle(exchange);',
  },
  // An accepted token that outlives its key.
  {
    file: 'auth.ts',
    text: 'if (accepted !== undefined && this.#isActive(accepted)) return accepted.name;',
    becomes: 'if (accepted !== undefined) return accepted.name;',
  },
];
