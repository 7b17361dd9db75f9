// Tests the clients of docs/clients.md again, with the packages of the generated client installed.
import '../standalone/clients.test.js';
