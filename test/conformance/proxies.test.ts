// Tests that `verify` finds each wrong proxy.
import { proxies } from './servers/wrong-servers.js';
import { testAlone } from './wrong-server-tests.js';

testAlone(proxies);
