#!/usr/bin/env node
/**
 * The entry of the process: decides what SIGHUP means, and keeps SIGUSR1 from opening Node's
 * debugger. Then it runs the command line.
 */

// A service reloads on SIGHUP. A static import would be evaluated before this, and a SIGHUP
// meanwhile would end the service. A server of a terminal, and with --dev, ends with it (C75).
const { isatty } = process.getBuiltinModule('node:tty');
const isService = !isatty(0) && !isatty(1) && !process.argv.includes('--dev');
if (isService) process.on('SIGHUP', () => undefined);
process.on('SIGUSR1', () => undefined);
const { main } = await import('./cli/index.js');
await main();
