#!/usr/bin/env node
/**
 * The entry of the process: decides what SIGHUP means, and keeps SIGUSR1 from opening Node's
 * debugger. Then it runs the command line. It also reports a limit of open files that is too low to
 * load the modules.
 */

// A service reloads on SIGHUP. The listener must exist before the imports, which take some time,
// because a SIGHUP without a listener would end the service. A server on a terminal or with --dev
// ends on SIGHUP (C75), so it gets no listener.
const { isatty } = process.getBuiltinModule('node:tty');
const isService = !isatty(0) && !isatty(1) && !process.argv.includes('--dev');
if (isService) process.on('SIGHUP', () => undefined);
process.on('SIGUSR1', () => undefined);

try {
  const { main } = await import('./cli/index.js');
  await main();
} catch (error) {
  const code: unknown = Object(error).code;
  if (code !== 'EMFILE' && code !== 'ENFILE') throw error;

  process.stderr.write('too many open files: raise the limit, such as by `ulimit -n 1024`\n');
  process.exit(3);
}
