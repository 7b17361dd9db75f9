/** Owns the ends of the process, by a signal or by a fault of its own. Knows nothing of what is stopped. */

/** What signals ask for. */
export interface SignalHandlers {
  /** Called once, on SIGTERM or SIGINT; the process exits 0 once it resolves, 1 where it rejects. */
  readonly stop: (signal: string) => Promise<void>;
  /** Called on every SIGHUP, which ends the process no more. */
  readonly reload: () => void;
  /** Called on what nobody caught: a fault of ours, or of a plugin. Then `stop` is, and the process exits 70. */
  readonly crashed: (error: unknown) => void;
}

/** As a shell names the end by a signal: 128 and its number. */
const signalCodes = { SIGINT: 130, SIGTERM: 143 } as const;
/** EX_SOFTWARE of sysexits(3). */
const faultCode = 70;

/** Takes over SIGTERM, SIGINT, SIGHUP and uncaught errors; a second one of them ends the process at once. */
export function onSignals({ stop, reload, crashed }: SignalHandlers): void {
  let isStopping = false;
  const end = (signal: 'SIGTERM' | 'SIGINT'): void => {
    if (isStopping) process.exit(signalCodes[signal]);
    isStopping = true;
    stop(signal).then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('uncaughtException', (error) => {
    crashed(error);
    if (isStopping) process.exit(faultCode);
    isStopping = true;
    // Nobody knows what is broken now, but requests under way and animals that wait for the disk may still be fine.
    void stop('uncaughtException')
      .catch(() => undefined)
      .then(() => process.exit(faultCode));
  });
  process.on('SIGTERM', () => end('SIGTERM'));
  process.on('SIGINT', () => end('SIGINT'));
  process.on('SIGHUP', reload);
}
