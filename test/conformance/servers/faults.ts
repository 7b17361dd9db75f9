/** Parts of petstores on plain node:http that are wrong in exactly one way. */
import type { ServerResponse } from 'node:http';
import type { Level } from '../../../dist/conformance/index.js';
import {
  PlainPetstore,
  type Draft,
  type ReceivedRequest,
  type Reply,
  type StoredPet,
} from './plain-petstore.js';

/** A wrong petstore with the rule that it breaks. */
export interface WrongPetstore {
  /** The number of the rule. */
  readonly number: string;
  /** What the server does, after "a petstore that". */
  readonly does: string;
  /** The lowest level at which `verify` finds it. */
  readonly level: Exclude<Level, 'full'>;
  readonly make: () => PlainPetstore;
}

export type Parts = Partial<Omit<PlainPetstore, 'pets' | 'basePath'>>;

/** Describes a wrong petstore by the parts that it replaces. */
export const wrong = (
  number: string,
  does: string,
  parts: (petstore: PlainPetstore) => Parts,
  level: WrongPetstore['level'] = 'specification',
): WrongPetstore => ({
  number,
  does,
  level,
  make: () => {
    const petstore = new PlainPetstore();
    return Object.assign(petstore, parts(petstore));
  },
});

/** Changes the pets of one response. */
export const changedIn =
  (where: 'list' | 'get' | 'add', change: (pet: StoredPet) => StoredPet) =>
  (petstore: PlainPetstore): Parts => ({
    jsonInResponse: (pet, place) => petstore.json(place === where ? change(pet) : pet),
  });

/** Changes the text of one response. */
export const textIn =
  (where: 'list' | 'get' | 'add', change: (json: string) => string) =>
  (petstore: PlainPetstore): Parts => ({
    jsonInResponse: (pet, place) => {
      const json = petstore.json(pet);
      return place === where ? change(json) : json;
    },
  });

/** Changes each list. */
export const listed =
  (change: (pets: readonly StoredPet[]) => readonly StoredPet[]) =>
  (petstore: PlainPetstore): Parts => {
    const find = petstore.find.bind(petstore);
    return { find: (status, limit) => change(find(status, limit)) };
  };

/** Changes the filtered pets. */
export const filtered =
  (change: (pets: readonly StoredPet[], status: string) => readonly StoredPet[]) =>
  (petstore: PlainPetstore): Parts => ({
    filtered: (status) => (status === null ? petstore.pets : change(petstore.pets, status)),
  });

/** Changes the replies to some requests. */
export const replied =
  (
    isMeant: (request: ReceivedRequest, reply: Reply) => boolean,
    change: (reply: Reply, request: ReceivedRequest, petstore: PlainPetstore) => Reply,
  ) =>
  (petstore: PlainPetstore): Parts => {
    const handle = petstore.handle.bind(petstore);
    return {
      handle: async (request) => {
        const reply = await handle(request);
        return isMeant(request, reply) ? change(reply, request, petstore) : reply;
      },
    };
  };

/** Accepts drafts that the specification refuses. */
export const accepting =
  (isAccepted: (draft: Draft) => boolean) =>
  (petstore: PlainPetstore): Parts => {
    const problemWith = petstore.problemWith.bind(petstore);
    return { problemWith: (draft) => (isAccepted(draft) ? undefined : problemWith(draft)) };
  };

/** Writes some responses in another way. */
export const written =
  (
    isMeant: (reply: Reply, method: string) => boolean,
    write: (response: ServerResponse, reply: Reply, method: string) => void,
  ) =>
  (petstore: PlainPetstore): Parts => {
    const usual = petstore.write.bind(petstore);
    return {
      write: (response, reply, method) =>
        isMeant(reply, method) ? write(response, reply, method) : usual(response, reply, method),
    };
  };

/** Sends raw bytes in place of a response, and ends the connection. */
export const sendRaw = (response: ServerResponse, bytes: string): void => {
  response.socket?.end(bytes);
};

export const isListReply = ({ status, body }: Reply) => status === 200 && body.startsWith('[');
export const isAddedReply = ({ status }: Reply) => status === 201;
export const isGet = ({ method, path }: ReceivedRequest) =>
  method === 'GET' && /\/pets\/./.test(path);
export const isList = ({ method, path }: ReceivedRequest) =>
  method === 'GET' && path.endsWith('/pets');
export const isAdd = ({ method }: ReceivedRequest) => method === 'POST';
const html = '<!DOCTYPE html><html><body>Sign in</body></html>';
export const asHtml = (reply: Reply): Reply => ({
  ...reply,
  body: html,
  headers: { 'Content-Type': 'text/html' },
});

/** Rounds digits as a double does. */
export const rounded = (digits: string) => BigInt(Number(digits)).toString();
