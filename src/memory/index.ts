/** In-memory storage. */
export {
  memoryStorage,
  type MemoryStorage,
  type MemoryStorageOptions,
} from './memory-storage.js';
