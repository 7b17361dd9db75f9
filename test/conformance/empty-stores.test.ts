// Tests that `verify` finds each wrong petstore that begins empty.
import { emptyStores } from './servers/wrong-servers.js';
import { testBrokenRules } from './wrong-server-tests.js';

testBrokenRules(emptyStores);
