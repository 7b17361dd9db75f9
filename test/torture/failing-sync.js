// Loaded into a server before its own modules: one write to a file is done, and then fails as if by its sync, since strace
// can fail a call only by not making it. FAILING_SYNC is the file's path, which write of it fails, and the errno's name.
import fs from 'node:fs';
import { promisify } from 'node:util';

const [path, when, code] = JSON.parse(process.env.FAILING_SYNC);
const write = promisify(fs.write);
let writes = 0;

fs.write = Object.assign(() => undefined, {
  [promisify.custom]: async (descriptor, bytes) => {
    const done = await write(descriptor, bytes);
    if (fs.readlinkSync(`/proc/self/fd/${descriptor}`) !== path || ++writes !== when) return done;
    // For whoever reads the trace.
    fs.closeSync(fs.openSync(`${path}.sync-failed`, 'w'));
    throw Object.assign(new Error(`${code}: injected`), { code });
  },
});
