/** A file system of its own that a row may fill, freeze, break and cut off; gone with the row. */
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Skip, until, type Share } from './row.js';
import { needPrograms, needRoot, tool } from './tools.js';

const run = promisify(execFile);

/** `_IOR('X', 125, __u32)`: what goes on behind it never reaches the disk. */
const shutdownIoctl = 0x8004587d;
/** Prints when it began and when it had ended, by the monotonic clock. */
const shutdownScript = `
  use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
  open(my $folder, "<", $ARGV[0]) or die $!;
  my $begin = clock_gettime(CLOCK_MONOTONIC);
  ioctl($folder, $ARGV[1], pack("L", $ARGV[2])) or die $!;
  printf "%.9f %.9f", $begin, clock_gettime(CLOCK_MONOTONIC)`;

/** How much a power cut leaves: all that is cached, what the journal has, or not even that. */
export const shutdownFlags = [0, 1, 2] as const;

/** An ext4 in a file behind a loop device. */
export class FileSystem {
  readonly folder: string;
  readonly #image: string;
  #isMounted = false;

  private constructor(image: string, folder: string) {
    this.#image = image;
    this.folder = folder;
  }

  /**
   * A new one, mounted; its image is in `scratch`, and made with the features of mkfs.ext4 that are
   * named.
   * @throws Skip where this machine lets nobody mount it.
   */
  static create(
    share: Share,
    options: string,
    { scratch = share.folder(), features = 'has_journal' } = {},
  ): FileSystem {
    needRoot();
    needPrograms('mkfs.ext4', 'mount', 'umount', 'perl', 'truncate');
    const made = new FileSystem(join(scratch, 'image'), join(scratch, 'mounted'));
    mkdirSync(made.folder);
    tool('truncate', '-s', '256M', made.#image);
    tool('mkfs.ext4', '-q', '-F', '-O', features, made.#image);
    try {
      made.mount(options);
    } catch (error) {
      throw new Skip(`no loop device can be mounted here: ${String(error).split('\n')[1] ?? ''}`);
    }
    // Lazily, so that it goes even while something still hangs in it.
    share.onEnd(() => made.#isMounted && tool('umount', '--lazy', made.folder));
    return made;
  }

  mount(options: string): void {
    tool('mount', '-o', `loop,${options}`, this.#image, this.folder);
    this.#isMounted = true;
  }

  /** Once the last process in it is gone. */
  async unmount(): Promise<void> {
    await until('the file system is let go of', 10_000, () => {
      try {
        tool('umount', this.folder);
        return true;
      } catch {
        return false;
      }
    });
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
    const { stdout } = await run('perl', [
      '-e',
      shutdownScript,
      this.folder,
      String(shutdownIoctl),
      String(flag),
    ]);
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
