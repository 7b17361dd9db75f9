/**
 * Owns the end of a test file that hangs: the runner bounds each test, but waits for ever on a file
 * whose tests have ended and which something keeps alive. Loaded ahead of every file, by
 * `--import`.
 */
const deadlineSeconds = 540;

// The runner itself loads this too, and has all files' time.
if (process.env['NODE_TEST_CONTEXT'] !== undefined) {
  setTimeout(() => {
    const alive = process.getActiveResourcesInfo().join(', ');
    console.error(`${process.argv[1]} has not ended after ${deadlineSeconds} s; alive: ${alive}`);
    process.exit(1);
  }, deadlineSeconds * 1000).unref();
}
