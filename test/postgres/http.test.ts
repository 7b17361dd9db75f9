// The HTTP suite once more, with PostgreSQL beneath.
import '../support/unmeasured.js';
import { test } from 'node:test';
import { withoutDatabase } from './database.js';
import { passHttpSuite } from './suite.js';

test('the HTTP suite passes on PostgreSQL', { skip: withoutDatabase(), timeout: 290_000 }, (t) =>
  passHttpSuite(t, 'postgres'),
);
