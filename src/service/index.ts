/** A petstore: its stores, the path of a request, and the hooks of plugins. */
export { createPetstore, type Petstore } from './petstore.js';
