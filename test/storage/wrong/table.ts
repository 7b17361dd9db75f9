/** The wrong storages for all suites. */
import type { Fault, Faults } from './fault.js';
import { keyFaults } from './keys.js';
import { petFaults } from './pets.js';
import { recordFaults } from './records.js';

/** The faults by the names of the suites that must find them. */
export const faults: Readonly<Record<string, Faults>> = {
  testStorage: petFaults,
  testInsertOnce: keyFaults,
  testRecords: recordFaults,
};

/** A wrong storage. */
export interface WrongStorage {
  /** Its name, which is unique within a suite. */
  readonly name: string;
  /** The rule that it breaks. It may break others too. */
  readonly rule: string;
  readonly fault: Fault;
}

/** Returns the wrong storages for a suite. */
export function wrongStorages(suite: string): readonly WrongStorage[] {
  return Object.entries(faults[suite] ?? {}).flatMap(([rule, byName]) =>
    Object.entries(byName).map(([name, fault]) => ({ name, rule, fault })),
  );
}
