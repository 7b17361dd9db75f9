// Tests that `verify` finds each wrong petstore also if it has pets of other clients.
import { filledStores } from './servers/wrong-servers.js';
import { testBrokenRules } from './wrong-server-tests.js';

testBrokenRules(filledStores);
