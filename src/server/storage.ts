/** Owns opening the storage that an option's text names. Knows no backend but by name. */
import { fileStorage, memoryStorage, type Log, type PetStorage } from '../index.js';
import { Refusal } from './refusal.js';
import type { Setting } from './settings.js';

/** A storage that is named, but not opened yet. */
export interface NamedStorage {
  /** As the operator wrote it. */
  readonly text: string;
  /** Whether animals outlive the process in it. */
  readonly isDurable: boolean;
  /** Opens it; rejects with a PetstoreError `storage_…`. */
  readonly open: (log: Log) => Promise<PetStorage>;
}

/** @throws Refusal for a text that names no storage; it is not repeated, for it may hold a password. */
export function readStorage({ text, from }: Setting): NamedStorage {
  if (text === 'memory:') return { text, isDurable: false, open: async () => memoryStorage() };
  const path = text.startsWith('file:') ? text.slice('file:'.length) : '';
  if (path !== '') return { text, isDurable: true, open: (log) => fileStorage(path, { log }) };
  const problem = /^postgres(ql)?:/.test(text) ? 'names PostgreSQL, which is not yet supported; use' : 'must be';
  throw new Refusal(`${from} ${problem} file:PATH, such as file:data/pets.jsonl, or memory:`);
}
