/**
 * Opens files without their lock for the test file that imports this: each lock costs a process, and such a test opens
 * a thousand files, each in a folder of its own. `lock.test.ts` holds what locks are for (F4).
 */
import childProcess from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';
import { mock } from 'node:test';

mock.method(childProcess, 'spawnSync', () => ({ status: 0, stderr: '', error: undefined }));
syncBuiltinESMExports();
