// Tests all rules on a quarter of the wrong servers.
import { testAllRules } from '../wrong-server-tests.js';

testAllRules(2);
