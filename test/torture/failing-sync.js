// Loaded into a server before its own modules. Makes one write to a file succeed and then fail as
// if by its sync, because strace can only prevent a call. FAILING_SYNC has the path, the number of
// the write, and the name of the errno.
import fs from 'node:fs';
import { promisify } from 'node:util';

const [path, when, code] = JSON.parse(process.env.FAILING_SYNC);
const write = promisify(fs.write);
let writes = 0;

fs.write = Object.assign(() => undefined, {
  [promisify.custom]: async (descriptor, bytes) => {
    const done = await write(descriptor, bytes);
    if (fs.readlinkSync(`/proc/self/fd/${descriptor}`) !== path || ++writes !== when) return done;
    // Marks the moment in the trace.
    fs.closeSync(fs.openSync(`${path}.sync-failed`, 'w'));
    throw Object.assign(new Error(`${code}: injected`), { code });
  },
});
