#!/usr/bin/env node
/** The entry of the process: takes SIGHUP over before anything else is loaded, then runs the command line. */

// A static import would be evaluated first, and for those milliseconds SIGHUP would end the process.
process.on('SIGHUP', () => undefined);
const { main } = await import('./cli/index.js');
await main();
