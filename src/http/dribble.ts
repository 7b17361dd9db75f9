/** Sends a body slowly, in parts at equal intervals (C84). */
import { clearTimeout, setTimeout } from 'node:timers';

const partCount = 10;

/** The functions that send a slow body. */
export interface SlowSender {
  /** Sends the next part. */
  readonly write: (part: string) => void;
  /** Called once, after the last part. */
  readonly end: () => void;
}

/**
 * Sends a body in parts. Returns a function that sends the rest at once.
 *
 * @param ms The time until the last part, in milliseconds.
 */
export function dribble(body: string, ms: number, { write, end }: SlowSender): () => void {
  let sent = 0;
  let timer: NodeJS.Timeout | undefined;
  const startOf = (part: number) => Math.floor((body.length * part) / partCount);

  const sendUpTo = (part: number): void => {
    const text = body.slice(startOf(sent), startOf(part));
    sent = part;
    if (text !== '') write(text);
    if (part === partCount) end();
    else waitForNext();
  };
  const waitForNext = (): void => {
    timer = setTimeout(() => sendUpTo(sent + 1), ms / partCount);
  };

  waitForNext();
  return () => {
    clearTimeout(timer);
    if (sent < partCount) sendUpTo(partCount);
  };
}

/** The functions of the petstore that a slow body needs. */
interface SlowStreamHooks {
  /** Ends the stream with its reason when it aborts. */
  readonly signal: AbortSignal;
  readonly onAbandoned: (callback: () => void) => void;
  readonly reportEnd: (isWhole: boolean) => void;
}

/** Returns a stream of a body that takes a time on purpose (C84). */
export function slowStream(body: string, ms: number, hooks: SlowStreamHooks) {
  const { signal, onAbandoned, reportEnd } = hooks;
  let isOver = false;
  let isCancelled = false;
  let hurry = (): void => undefined;
  const cancel = () => {
    isCancelled = true;
    hurry();
  };
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      hurry = dribble(body, ms, {
        write: (part) => {
          if (!isCancelled) controller.enqueue(Buffer.from(part, 'latin1'));
        },
        end: () => {
          isOver = true;
          if (!isCancelled) controller.close();
          reportEnd(!isCancelled);
        },
      });
      onAbandoned(hurry);
      signal.addEventListener('abort', () => {
        if (isOver) return;
        controller.error(signal.reason);
        cancel();
      });
    },
    cancel,
  });
}
