// Tests that `verify` finds each wrong proxy.
import { proxies } from './servers/wrong-servers.js';
import { testBrokenRules } from './wrong-server-tests.js';

testBrokenRules(proxies);
