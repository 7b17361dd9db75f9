// A third of the wrong proxies.
import '../support/unmeasured.js';
import { testWrongProxies } from './wrong-proxy-tests.js';

testWrongProxies(2);
