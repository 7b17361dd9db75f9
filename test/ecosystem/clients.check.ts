// The clients of docs/clients.md once more: here the packages of the generated one are installed.
import '../standalone/clients.test.js';
