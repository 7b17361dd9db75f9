/**
 * R2: the power fails while 8 clients add. Unlike `kill -9`, this shows whether an acknowledged pet
 * was on the disk.
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
/** The number of tries after the cut for each writer that is not refused yet. */
const addsBehind = 40;
/**
 * The number of cuts for each file system. It begins empty, so that a cut also meets new files and
 * folders.
 */
const cutsAFileSystem = 6;
const mountOptions = ['rw', 'data=writeback', 'data=journal', 'nodelalloc'];

export const power: TortureRow = {
  id: 'R2',
  title:
    'power cut of a loop-mounted ext4 (shutdown ioctl, flags 0, 1, 2) under 8 writers, ledger outside',
  fullS: 25,
  run: async (share) => {
    let [cuts, acknowledged, unheard] = [0, 0, 0];
    while (share.goOn(cuts, fullCuts)) {
      const options = share.random.pick(mountOptions);
      const fileSystem = FileSystem.create(share, options);
      const begun = {
        path: join(fileSystem.folder, 'new', 'folders', 'pets.jsonl'),
        ledger: new Ledger(),
      };
      for (let cut = 0; cut < cutsAFileSystem && share.goOn(cuts, fullCuts); cut++, cuts++) {
        unheard += await cutUnderWriters(share, fileSystem, begun);
        await fileSystem.unmount();
        fileSystem.mount(options);
        await (await Scene.start(share, begun)).stop();
      }
      acknowledged += begun.ledger.size;
      await fileSystem.unmount();
    }
    return `${count(cuts, fullCuts, 'cuts')}, ${whole(acknowledged)} animals acknowledged: 0 lost, 0 altered, each start without help; ${unheard} 201s came while the power went, none to what was sent behind that`;
  },
};

/**
 * Cuts the power at a random moment: in the start, in the first batch, or later. Requests sent
 * later may not get a 201. Returns the number of 201s during the cut, which no client would have
 * received.
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
    let more = addsBehind;
    const writing = new Scene(share, path, ledger, server, clients).write(
      writers,
      (refused) => !isCut || (refused === 0 && more-- > 0),
    );
    await Promise.race([writing, cutting]);
    isCut = true;
    await Promise.all([writing, cutting]);
    const add = await clients.add({ name: 'behind the cut', categoryId: 1 });
    assert.equal(add.status, 503, `behind the cut an add is answered ${add.status}`);
    await clients.get('/v1/pets');
    clients.close();
  }
  const unheard = ledger.forgetCut(await cutting);
  const { code, stderr } = await server.end(share.random.pick(['SIGKILL', 'SIGTERM']));
  // A server that met the cut in its start may have refused.
  assert.ok(
    code === null || code === 0 || (clients === undefined && code === 3),
    `the server ends with ${code}: ${stderr}`,
  );
  return unheard;
}
