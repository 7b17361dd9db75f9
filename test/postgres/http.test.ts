// A petstore within the process once more, with PostgreSQL beneath; what comes over a socket passes
// through servers.
import '../support/unmeasured.js';
import { test } from 'node:test';
import { withoutDatabase } from './database.js';
import { passHttpSuite } from './suite.js';

test(
  'a petstore that is embedded passes on PostgreSQL',
  { skip: withoutDatabase(), timeout: 290_000 },
  (t) => passHttpSuite(t, 'postgres'),
);
