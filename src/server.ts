#!/usr/bin/env node
/**
 * The entry of the process: it keeps SIGHUP from ending the process, and SIGUSR1 from opening
 * Node's debugger, before anything else is loaded. Then it runs the command line.
 */

// A static import would be evaluated before this, and a SIGHUP meanwhile would end the process.
process.on('SIGHUP', () => undefined);
process.on('SIGUSR1', () => undefined);
const { main } = await import('./cli/index.js');
await main();
