/** The entry of the command line. Other folders import only this module of cli. */
export { main } from './command-line.js';
