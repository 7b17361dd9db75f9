/**
 * R4: every call of the disk fails in every way, once or from then on, and nothing acknowledged is
 * lost by it.
 */
import { errnos } from '../support/disk.js';
import { made, openTexts, petText, startTexts } from './files.js';
import { Machine } from './machine.js';
import type { CallName, Fault } from './process.js';
import { count, hold, inTime, Violation, type Row, type Share } from './row.js';
import { Session } from './session.js';
import { reasonOf } from '../../dist/index.js';

const path = '/data/deep/pets.jsonl';
const torn = '{"torn';

interface Scene {
  readonly name: string;
  /** The file at the beginning; without one its folders are missing too. */
  readonly file?: { readonly bytes: Buffer; readonly texts: readonly string[] };
  readonly play: (session: Session, disk: { isFull: boolean }) => Promise<void>;
}

/** Plays only where the storage opens. */
const opened =
  (play: Scene['play']): Scene['play'] =>
  async (session, disk) => {
    if (!(await session.open())) return;
    await play(session, disk);
    await session.close();
  };
const sound = made([2, 1, 3]);
const uncommitted = petText(7, 'not committed');
const scenes: readonly Scene[] = [
  { name: 'create', play: opened((session) => session.add(2)) },
  { name: 'open', file: sound, play: opened((session) => session.add(2)) },
  {
    name: 'open with a torn tail',
    file: {
      bytes: Buffer.concat([sound.bytes, Buffer.from(`${uncommitted}\n${torn}`)]),
      texts: [...sound.texts, uncommitted],
    },
    play: opened((session) => session.add(1)),
  },
  {
    name: 'several batches',
    play: opened(async (session) => {
      for (const many of [1, 3, 2, 90, 1]) await session.add(many);
    }),
  },
  {
    name: 'recovery',
    file: sound,
    play: opened(async (session, disk) => {
      await session.add(1);
      disk.isFull = true;
      await session.add(2);
      await session.add(1);
      disk.isFull = false;
      await session.add(2);
      await session.add(1);
    }),
  },
  { name: 'open and close', file: sound, play: opened(async () => undefined) },
];

/** What happens to a call, `at` being the one that fails first. */
interface Kind {
  readonly name: string;
  readonly fault: (call: CallName, number: number, at: number) => Fault;
}

const kinds: readonly Kind[] = [
  ...errnos.flatMap((errno): Kind[] => [
    { name: `${errno} once`, fault: (_call, number, at) => (number === at ? errno : undefined) },
    {
      name: `${errno} from then on`,
      fault: (_call, number, at) => (number >= at ? errno : undefined),
    },
  ]),
  {
    name: 'a write of 1 byte',
    fault: (call, number, at) => (call === 'write' && number === at ? 1 : undefined),
  },
  {
    name: 'writes of 7 bytes from then on',
    fault: (call, number, at) => (call === 'write' && number >= at ? 7 : undefined),
  },
  {
    name: 'a write of no byte',
    fault: (call, number, at) => (call === 'write' && number === at ? 0 : undefined),
  },
  ...(['ENOSPC', 'EIO'] as const).map(
    (errno): Kind => ({
      name: `a write of 10 bytes and then ${errno}`,
      fault: (call, number, at) =>
        call !== 'write' ? undefined : number === at ? 10 : number === at + 1 ? errno : undefined,
    }),
  ),
];

export const failingCalls: Row = {
  id: 'R4',
  title: `call N of the disk fails, for every N, with ${errnos.join(', ')} and short writes, once and from then on`,
  fullS: 15,
  run: async (share) => {
    const cases: {
      readonly scene: Scene;
      readonly kind: Kind;
      readonly at: number;
      readonly order: number;
    }[] = [];
    for (const scene of scenes) {
      // Without a fault it tells how many calls there are.
      const last = await tryCase(share, scene, { name: 'no fault', fault: () => undefined }, 1);
      for (let at = 1; at <= last; at++)
        for (const kind of kinds)
          cases.push({ scene, kind, at, order: share.random.below(2 ** 32) });
    }
    // In any order, so that a short run tries some of each.
    cases.sort((one, other) => one.order - other.order);
    let done = 0;
    for (const { scene, kind, at } of cases) {
      if (!share.goOn(done, cases.length)) break;
      await tryCase(share, scene, kind, at);
      done++;
    }
    return `${count(done, cases.length, 'cases')} in ${scenes.length} scenes: 0 acknowledged animals lost, by a kill or a power cut behind each either; 0 hangs; each in the state of F5 or F6`;
  },
};

/**
 * Plays a scene, and then starts again after a kill and after power cuts; answers how many calls
 * the scene made.
 */
async function tryCase(share: Share, scene: Scene, kind: Kind, at: number): Promise<number> {
  const what = `${scene.name}, call ${at}, ${kind.name}`;
  const machine = new Machine(
    scene.file && { '/data': undefined, '/data/deep': undefined, [path]: scene.file.bytes },
  );
  const disk = { isFull: false };
  // A disk that fills up takes a part first.
  const full = (call: CallName, before: CallName | undefined): Fault =>
    !disk.isFull || call !== 'write' ? undefined : before === 'write' ? 'ENOSPC' : 20;
  let before: CallName | undefined;
  const session = new Session(machine, path, scene.file?.texts ?? [], (call, number) => {
    const fault = kind.fault(call, number, at) ?? full(call, before);
    before = call;
    return fault;
  });
  try {
    await inTime(scene.play(session, disk), 15_000, 'hangs');
    session.process.kill();
    // A file system that neither syncs nor undoes serves again only once it is mounted anew,
    // without its memory.
    if (!session.isStale) await startAgain(share, machine.clone(), scene, session);
    for (let cut = 0; cut < 3; cut++)
      await startAgain(share, machine.cutPower(share.random), scene, session);
  } catch (error) {
    throw new Violation(`${what}: ${reasonOf(error)}`);
  }
  return session.process.calls;
}

/**
 * A start without faults serves all that was acknowledged, and what it serves outlasts the next
 * power cut.
 */
async function startAgain(
  share: Share,
  machine: Machine,
  scene: Scene,
  { acknowledged, refused }: Session,
): Promise<void> {
  const { texts, journal } = await openTexts(machine.process().disk, path);
  hold(
    isPrefix(acknowledged, texts),
    `${acknowledged.length} animals were acknowledged, ${texts.length} are there`,
  );
  const extra = texts.slice(acknowledged.length);
  hold(
    extra.every((text) => refused.includes(text)),
    `there are animals that nobody added: ${extra[0]}`,
  );
  const later = petText(texts.length + 1, 'later');
  await journal.append([later]);
  const served = await startTexts(machine.cutPower(share.random).process().disk, path);
  hold(isPrefix([...texts, later], served), 'what a start served is gone after the next power cut');
  const isThere = machine.paths.some((name) => machine.file(name)?.toString().endsWith(torn));
  hold(
    scene.file?.bytes.toString().endsWith(torn) !== true || isThere,
    'the torn tail is gone without a copy',
  );
}

function isPrefix(these: readonly string[], of: readonly string[]): boolean {
  return these.every((text, index) => text === of[index]);
}
