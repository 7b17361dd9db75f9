/** Owns the signals of the process and its end by them. Knows nothing of what is stopped. */
import { constants } from 'node:os';

/** What signals ask for. */
export interface SignalHandlers {
  /** Called once, on SIGTERM or SIGINT; the process exits 0 once it resolves, 1 where it rejects. */
  readonly stop: (signal: string) => Promise<void>;
  /** Called on every SIGHUP, which ends the process no more. */
  readonly reload: () => void;
}

/** Takes over SIGTERM, SIGINT and SIGHUP; a second SIGTERM or SIGINT ends the process at once. */
export function onSignals({ stop, reload }: SignalHandlers): void {
  let isStopping = false;
  const end = (signal: 'SIGTERM' | 'SIGINT'): void => {
    // As a shell names the end by a signal.
    if (isStopping) process.exit(128 + constants.signals[signal]);
    isStopping = true;
    stop(signal).then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', () => end('SIGTERM'));
  process.on('SIGINT', () => end('SIGINT'));
  process.on('SIGHUP', reload);
}
