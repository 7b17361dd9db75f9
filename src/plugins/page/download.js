// The download of all pets as JSON Lines.
import { objectTexts } from './exact-json.js';
import { RequestError } from './requests.js';

/** @import { Found } from './requests.js' */

/** The most waits for one page. */
const maxWaits = 5;

/** All pets, requested page by page. After an error, `run` goes on with the page that failed. */
export class Download {
  /** @type {Blob[]} */
  #pages = [];
  /** The query of the next page; undefined after the last page. @type {string | undefined} */
  #query = 'limit=100';
  /** The number of pets so far. */
  count = 0;

  /**
   * Requests the pages that are missing, and returns the file. Each line has the bytes of the
   * server.
   * @param {object} options
   * @param {(query: string) => Promise<Found>} options.request
   * @param {(seconds: number) => Promise<void>} options.wait
   * @param {() => void} options.onPage
   * @throws {RequestError}
   */
  async run({ request, wait, onPage }) {
    let waits = 0;
    while (this.#query !== undefined) {
      try {
        const { text, next } = await request(this.#query);
        if (next === this.#query) throw new RequestError('The list does not end.');
        const lines = objectTexts(text).map((line) => `${line}\n`);
        this.#pages.push(new Blob(lines));
        this.count += lines.length;
        this.#query = next;
        waits = 0;
        onPage();
      } catch (error) {
        const seconds = error instanceof RequestError ? error.waitSeconds : undefined;
        if (seconds === undefined || ++waits > maxWaits) throw error;
        await wait(seconds);
      }
    }
    return new Blob(this.#pages, { type: 'application/x-ndjson' });
  }
}
