#!/usr/bin/env node
/**
 * The entry of the process: takes SIGHUP over before anything else is loaded, then runs the command
 * line.
 */

// A static import would be evaluated first, and SIGHUP end the process meanwhile.
process.on('SIGHUP', () => undefined);
const { main } = await import('./cli/index.js');
await main();
