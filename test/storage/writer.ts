/**
 * A process that adds animals to a file until it is killed, and says on standard output which were
 * acknowledged. Run by the tests of locks and of `kill -9`: `node writer.ts FILE [adders]`.
 */
import { writeSync } from 'node:fs';
import { fileStorage } from '../../dist/file/index.js';

const [path = '', adders = '0'] = process.argv.slice(2);
try {
  const storage = await fileStorage(path);
  writeSync(1, `open ${storage.size}\n`);
  const add = async (name: string): Promise<void> => {
    for (let count = 0; ; count++) {
      const pet = await storage.insert({ name: `${name} ${count}`, categoryId: 1n });
      writeSync(1, `${pet.id} ${pet.name}\n`);
    }
  };
  for (let adder = 0; adder < Number(adders); adder++) void add(`adder ${adder}`);
  setInterval(() => undefined, 1000);
} catch (error) {
  writeSync(1, `refused ${error instanceof Error ? error.message : String(error)}\n`);
}
