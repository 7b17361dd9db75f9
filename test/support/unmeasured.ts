/** Imported first by test files whose lines of src others reach as well: measuring them too takes a tenth of their time. */
import { stopCoverage } from 'node:v8';

if (process.env['NODE_V8_COVERAGE']) stopCoverage();
// Nor what they start.
process.env['NODE_V8_COVERAGE'] = '';
