/**
 * Faults that Stryker does not make. Each breaks a promise of the contract, and is always tried.
 */
import type { Change } from './mutants.js';

export const faultsByHand: readonly Change[] = [
  // The server is ready before the records that it has read are synced.
  {
    file: 'journal/journal.ts',
    text: 'await disk.datasync(descriptor);\n  return found.end',
    becomes: 'return found.end',
  },
  // The 201 is sent before the sync.
  {
    file: 'journal/disk.ts',
    text: 'await disk.datasync(descriptor);',
    becomes: 'void disk.datasync(descriptor);',
  },
  // A short write counts as complete.
  { file: 'journal/disk.ts', text: 'done += count;', becomes: 'done = bytes.length;' },
  // A failed sync is tried again.
  {
    file: 'journal/journal.ts',
    text: 'await disk.truncate(descriptor, end).catch(nothing);\n    return becomeBroken(error);',
    becomes: 'await disk.datasync(descriptor);\n    return becomeFull(error);',
  },
  // A pet is visible before it is durable.
  {
    file: 'file/file-storage.ts',
    text: 'const syncMilliseconds = await journal.append(lines);\n    for (const { stored, indexed, keyUse } of records) {\n      catalogue.add(stored.id, stored.json, indexed);',
    becomes:
      'for (const { stored, indexed } of records) catalogue.add(stored.id, stored.json, indexed);\n    const syncMilliseconds = await journal.append(lines);\n    for (const { stored, keyUse } of records) {',
  },
  // A second request is handled before the response to the first one.
  {
    file: 'http/connection.ts',
    text: 'this.#queue.push(exchange);',
    becomes: 'this.#queue.push(exchange);\n    void this.#shared.service.handle(exchange);',
  },
  // A cached token is accepted after its key was revoked.
  {
    file: 'auth.ts',
    text: 'if (accepted !== undefined && isActive(accepted, clock)) return accepted.name;',
    becomes: 'if (accepted !== undefined) return accepted.name;',
  },
];
