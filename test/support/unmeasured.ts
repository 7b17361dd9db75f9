/**
 * Turns coverage off. Slow test files import this first if other tests cover the same lines,
 * because coverage takes a tenth of their time.
 */
import { stopCoverage } from 'node:v8';

if (process.env['NODE_V8_COVERAGE']) stopCoverage();
// Child processes inherit it.
process.env['NODE_V8_COVERAGE'] = '';
