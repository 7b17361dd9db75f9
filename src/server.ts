#!/usr/bin/env node
/**
 * The entry of the process: it keeps SIGHUP from ending the process before anything else is loaded,
 * and then runs the command line.
 */

// A static import would be evaluated before this, and a SIGHUP meanwhile would end the process.
process.on('SIGHUP', () => undefined);
const { main } = await import('./cli/index.js');
await main();
