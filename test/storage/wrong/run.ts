/** Runs a suite on a right storage and on all wrong ones for it. The argument names the suite. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { testInsertOnce, testRecords, testStorage } from '../../../dist/conformance/index.js';
import { storageWith, type Fault } from './fault.js';
import { wrongStorages } from './table.js';

const suites = { testStorage, testInsertOnce, testRecords };

const [, , name = ''] = process.argv;
const [, suite] = Object.entries(suites).find(([known]) => known === name) ?? [];
assert.ok(suite, `there is no suite ${name}`);

const run = (storage: string, fault: Fault) =>
  describe(storage, () => suite({ open: () => storageWith(fault) }));

run('right', () => ({}));
for (const { name: storage, fault } of wrongStorages(name)) run(storage, fault);
