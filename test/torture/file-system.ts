/** File systems of a row's own that it may fill, freeze, break and cut off; gone with it. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { atEnd } from '../support/at-end.js';
import { folder } from '../support/process.js';
import { until } from '../support/waiting.js';
import { needPrograms, Skip, type Share } from './row.js';

const run = promisify(execFile);

/** Runs a program of the system to its end; answers its standard output. */
export function tool(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** @throws Skip where this user may not mount. */
function needMounts(): void {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new Skip('needs root on Linux, for mounts of its own');
  needPrograms('mount', 'umount');
}

/** A new folder of so many megabytes of memory. */
export function memoryFolder(share: Share, megabytes: number): string {
  needMounts();
  const path = folder(share);
  tool('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', path);
  atEnd(share, () => tool('umount', '--lazy', path));
  return path;
}

/** `_IOR('X', 125, __u32)`: what goes on behind it never reaches the disk. */
const shutdownIoctl = '0x8004587d';
/** Prints when it began and when it had ended, by the monotonic clock. */
const shutdownScript = `
  use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
  open(my $folder, "<", $ARGV[0]) or die $!;
  my $begin = clock_gettime(CLOCK_MONOTONIC);
  ioctl($folder, ${shutdownIoctl}, pack("L", $ARGV[1])) or die $!;
  printf "%.9f %.9f", $begin, clock_gettime(CLOCK_MONOTONIC)`;

/** How much a power cut leaves: all that is cached, what the journal has, or not even that. */
export const shutdownFlags = [0, 1, 2] as const;

/** An ext4 in a file behind a loop device. */
export class FileSystem {
  readonly folder: string;
  readonly #image: string;
  #isMounted = false;

  private constructor(scratch: string) {
    this.#image = join(scratch, 'image');
    this.folder = join(scratch, 'mounted');
  }

  /**
   * A new one, mounted; its image is in `scratch`, and made with the features of mkfs.ext4 that are
   * named.
   * @throws Skip where this machine lets nobody mount it.
   */
  static create(
    share: Share,
    options: string,
    { scratch = folder(share), features = 'has_journal' } = {},
  ): FileSystem {
    needMounts();
    needPrograms('mkfs.ext4', 'perl', 'truncate');
    const made = new FileSystem(scratch);
    mkdirSync(made.folder);
    tool('truncate', '-s', '256M', made.#image);
    tool('mkfs.ext4', '-q', '-F', '-O', features, made.#image);
    try {
      made.mount(options);
    } catch (error) {
      throw new Skip(`no loop device can be mounted here: ${String(error).split('\n')[1] ?? ''}`);
    }
    // Lazily, so that it goes even while something still hangs in it.
    atEnd(share, () => made.#isMounted && tool('umount', '--lazy', made.folder));
    return made;
  }

  mount(options: string): void {
    tool('mount', '-o', `loop,${options}`, this.#image, this.folder);
    this.#isMounted = true;
  }

  /** Once the last process in it is gone. */
  async unmount(): Promise<void> {
    await until('the file system to be let go of', () =>
      run('umount', [this.folder]).then(
        () => true,
        () => false,
      ),
    );
    this.#isMounted = false;
  }

  /**
   * As if the power went; it stays mounted, and fails whatever asks for the disk. Answers when that
   * began and had ended, in seconds of the monotonic clock: an fdatasync that is under way in
   * between may be told by Linux that all is well, and its bytes are gone; one that begins behind
   * the end fails.
   */
  async cutPower(
    flag: (typeof shutdownFlags)[number],
  ): Promise<{ readonly beganS: number; readonly endedS: number }> {
    const { stdout } = await run('perl', ['-e', shutdownScript, this.folder, String(flag)]);
    const [beganS = Number.NaN, endedS = Number.NaN] = stdout.split(' ').map(Number);
    return { beganS, endedS };
  }

  /** The name of its device, as in /sys. */
  get device(): string {
    return tool('findmnt', '--noheadings', '--output', 'SOURCE', this.folder)
      .trim()
      .replace('/dev/', '');
  }
}
