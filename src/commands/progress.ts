/** Owns the progress bar: one line that is drawn over itself on a terminal, nothing elsewhere. Knows no work. */

/** What a bar is drawn on; standard error is one. */
export interface Terminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

const width = 30;
const redrawMs = 100;

/** Shows how far something is. */
export class Progress {
  readonly #terminal: Terminal;
  #drawnAt = -Infinity;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Draws the bar, though not for every call; `done` is from 0 to 1. */
  show(what: string, done: number, count: number, things = 'animals'): void {
    if (this.#terminal.isTTY !== true || performance.now() - this.#drawnAt < redrawMs) return;
    this.#drawnAt = performance.now();
    const full = Math.min(width, Math.floor(done * width));
    const bar = '#'.repeat(full) + '-'.repeat(width - full);
    this.#terminal.write(`\r${what} [${bar}] ${String(Math.floor(done * 100)).padStart(3)}% ${count} ${things}`);
  }

  /** Leaves an empty line for what is said next. */
  clear(): void {
    if (this.#drawnAt > -Infinity) this.#terminal.write('\r\u001b[K');
  }
}
