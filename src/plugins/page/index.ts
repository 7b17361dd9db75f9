/** The files of the pages that the plugin `docs` serves. */
export { readPageFiles } from './page-files.js';
