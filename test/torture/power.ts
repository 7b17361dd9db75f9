/**
 * R2: a power cut while 8 clients add loses no acknowledged pet. Unlike `kill -9`, it shows if an
 * acknowledged pet was on the disk.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { FileSystem, shutdownFlags } from './file-system.js';
import { Ledger } from './ledger.js';
import { whole } from '../bench/report.js';
import { count, type TortureRow, type Share } from './row.js';
import { Scene, TorturedServer, type Begun } from './scene.js';

const fullCuts = 60;
const writers = 8;
/** The number of adds after the cut, by writers that have not been refused yet. */
const addsAfterCut = 40;
/**
 * The number of cuts of the same file system. A file system begins empty, so that some cuts happen
 * while files and folders are new.
 */
const cutsAFileSystem = 6;
const mountOptions = ['rw', 'data=writeback', 'data=journal', 'nodelalloc'];

export const power: TortureRow = {
  id: 'R2',
  title:
    'power cuts of a loop-mounted ext4 (shutdown ioctl, flags 0, 1, 2) under 8 writers, whose ledger is on another disk',
  fullS: 25,
  run: async (share) => {
    let [cuts, acknowledged, unreceived] = [0, 0, 0];
    while (share.goOn(cuts, fullCuts)) {
      const options = share.random.pick(mountOptions);
      const fileSystem = FileSystem.create(share, options);
      const begun = {
        path: join(fileSystem.folder, 'new', 'folders', 'pets.jsonl'),
        ledger: new Ledger(),
      };
      for (let cut = 0; cut < cutsAFileSystem && share.goOn(cuts, fullCuts); cut++, cuts++) {
        unreceived += await cutUnderWriters(share, fileSystem, begun);
        await fileSystem.unmount();
        fileSystem.mount(options);
        await (await Scene.start(share, begun)).stop();
      }
      acknowledged += begun.ledger.size;
      await fileSystem.unmount();
    }
    return `${count(cuts, fullCuts, 'cuts')}, ${whole(acknowledged)} pets acknowledged: 0 lost, 0 altered, no start needed help; ${unreceived} 201s arrived during a cut and do not count, 0 for requests sent after it`;
  },
};

/**
 * Cuts the power at a random moment: during the start, in the first batch, or later. Checks that
 * requests sent after the cut get no 201. Returns the number of 201s during the cut, which a real
 * client would not have received.
 */
async function cutUnderWriters(
  share: Share,
  fileSystem: FileSystem,
  { path, ledger }: Begun,
): Promise<number> {
  const server = new TorturedServer(share, path);
  const cutting = wait(share.random.below(400)).then(() =>
    fileSystem.cutPower(share.random.pick(shutdownFlags)),
  );
  cutting.catch(() => undefined);
  const clients = await server.clients();
  if (clients !== undefined) {
    let isCut = false;
    let more = addsAfterCut;
    const writing = new Scene(share, path, ledger, server, clients).write(
      writers,
      (refused) => !isCut || (refused === 0 && more-- > 0),
    );
    await Promise.race([writing, cutting]);
    isCut = true;
    await Promise.all([writing, cutting]);
    const add = await clients.add({ name: 'after the cut', categoryId: 1 });
    assert.equal(add.status, 503, `the response to an add after the cut is ${add.status}`);
    await clients.get('/v1/pets');
    clients.close();
  }
  const unreceived = ledger.removeUnreceived(await cutting);
  const { code, stderr } = await server.end(share.random.pick(['SIGKILL', 'SIGTERM']));
  // A server whose power was cut during its start may have refused to start.
  assert.ok(
    code === null || code === 0 || (clients === undefined && code === 3),
    `the server exited with ${code}: ${stderr}`,
  );
  return unreceived;
}
