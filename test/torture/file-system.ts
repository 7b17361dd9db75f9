/** File systems that a row may fill, freeze and break. They are unmounted at the end of the row. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { atEnd } from '../support/at-end.js';
import { folder } from '../support/process.js';
import { until } from '../support/waiting.js';
import { needPrograms, Skip, type Share } from './row.js';

const run = promisify(execFile);

/** Runs a system program and returns its standard output. */
export function tool(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** @throws Skip if this user may not mount */
function needMounts(): void {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new Skip('needs root on Linux, for mounts of its own');
  needPrograms('mount', 'umount');
}

/** Mounts a new folder of so many megabytes in memory. */
export function memoryFolder(share: Share, megabytes: number): string {
  needMounts();
  const path = folder(share);
  tool('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', path);
  atEnd(share, () => tool('umount', '--lazy', path));
  return path;
}

/** The ioctl `_IOR('X', 125, __u32)`, after which no write reaches the disk. */
const shutdownIoctl = '0x8004587d';
/** A Perl script that calls the ioctl, and prints the times before and after it. */
const shutdownScript = `
  use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
  open(my $folder, "<", $ARGV[0]) or die $!;
  my $begin = clock_gettime(CLOCK_MONOTONIC);
  ioctl($folder, ${shutdownIoctl}, pack("L", $ARGV[1])) or die $!;
  printf "%.9f %.9f", $begin, clock_gettime(CLOCK_MONOTONIC)`;

/** The flags of the ioctl: write the cache first, write only the journal, or write nothing. */
export const shutdownFlags = [0, 1, 2] as const;

/** An ext4 file system in an image file on a loop device. */
export class FileSystem {
  readonly folder: string;
  readonly #image: string;
  #isMounted = false;

  private constructor(scratch: string) {
    this.#image = join(scratch, 'image');
    this.folder = join(scratch, 'mounted');
  }

  /**
   * Makes and mounts a new file system. Its image is in `scratch`, and `features` is the option -O
   * of mkfs.ext4.
   * @throws Skip if this machine does not allow mounts
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
    // Lazily, so that it is unmounted even while a process hangs in it.
    atEnd(share, () => made.#isMounted && tool('umount', '--lazy', made.folder));
    return made;
  }

  mount(options: string): void {
    tool('mount', '-o', `loop,${options}`, this.#image, this.folder);
    this.#isMounted = true;
  }

  /** Unmounts after the last process has ended. */
  async unmount(): Promise<void> {
    await until('the file system to be unmounted', () =>
      run('umount', [this.folder]).then(
        () => true,
        () => false,
      ),
    );
    this.#isMounted = false;
  }

  /**
   * Cuts the power: the file system stays mounted, but every use of the disk fails. Returns the
   * start and the end of the cut, in seconds of the monotonic clock. For an fdatasync in flight
   * between them, Linux may report success although its bytes are lost. An fdatasync that begins
   * after the end fails.
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
