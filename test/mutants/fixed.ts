/** The fixed faults: each breaks a promise that a user could rely on, so a test must fail. */
import type { Change } from './mutants.js';
import { otherFaults } from './other-faults.js';
import { ruleFaults } from './rule-faults.js';

export interface FixedFault extends Change {
  /** The rule of docs/contract.md that the fault breaks. Only tests that name it are run. */
  readonly rule?: string;
  /** The result for a user. */
  readonly harm: string;
  /** The test file that must fail, below test and without `.test.ts`. */
  readonly test: string;
}

export const fixedFaults: readonly FixedFault[] = [...ruleFaults, ...otherFaults];
