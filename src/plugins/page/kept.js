// Texts that outlast a reload of the tab, under the names that both pages share.

/** The API key. */
export const keyName = 'petstore-key';

/** The add whose outcome is not known. */
export const pendingName = 'petstore-add';

/**
 * Keeps texts in session storage. A text that the browser does not store, because it blocks the
 * storage or the text is too long, is kept in memory.
 */
export class KeptTexts {
  #open;
  /** @type {Map<string, string>} */
  #memory = new Map();

  /** @param {() => Storage} open Returns the storage, or throws if the browser blocks it. */
  constructor(open) {
    this.#open = open;
  }

  /** @param {string} name */
  get(name) {
    return this.#memory.get(name) ?? this.#try((storage) => storage.getItem(name)) ?? undefined;
  }

  /**
   * Returns true if the text outlasts a reload.
   * @param {string} name
   * @param {string} text
   */
  set(name, text) {
    this.remove(name);
    const isStored = this.#try((storage) => {
      storage.setItem(name, text);
      return true;
    });
    if (!isStored) this.#memory.set(name, text);
    return isStored === true;
  }

  /** @param {string} name */
  remove(name) {
    this.#memory.delete(name);
    this.#try((storage) => storage.removeItem(name));
  }

  /**
   * @template Result
   * @param {(storage: Storage) => Result} work
   */
  #try(work) {
    try {
      return work(this.#open());
    } catch {
      return undefined;
    }
  }
}
