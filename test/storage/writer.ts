/** `node writer.ts FILE` opens a file until it is killed, for the tests of locks. */
import { writeSync } from 'node:fs';
import { fileStorage } from '../../dist/file/index.js';

try {
  const { size } = await fileStorage(process.argv[2] ?? '');
  writeSync(1, `open ${size}\n`);
  setInterval(() => undefined, 1000);
} catch (error) {
  writeSync(1, `refused ${error}\n`);
}
