/**
 * A process that opens a file and has it until it is killed, and says so on standard output. Run by
 * the tests of locks: `node writer.ts FILE`.
 */
import { writeSync } from 'node:fs';
import { fileStorage } from '../../dist/file/index.js';

try {
  const { size } = await fileStorage(process.argv[2] ?? '');
  writeSync(1, `open ${size}\n`);
  setInterval(() => undefined, 1000);
} catch (error) {
  writeSync(1, `refused ${error}\n`);
}
