/** The public API; what is not exported here is private. */
export { PetstoreError, type ErrorCode, type ErrorDetails, type ReplyErrorCode, type StorageErrorCode } from './errors.js';
export type { VerifyKey } from './http/auth.js';
export type { Deprecation } from './http/deprecation.js';
export type { OpenApiDocument, OpenApiOperation, OpenApiValue } from './http/openapi.js';
export { Query } from './http/query.js';
export { emptyReply, jsonReply, type Reply } from './http/reply.js';
export type { Operation, OperationRequest, Route } from './http/route.js';
export type { ListenOptions } from './http/server.js';
export { JsonNumber, parseJson, toByteString, type JsonValue } from './json.js';
export { digestOfKey, KeyRing, type KeyEntry } from './key-ring.js';
export type { Log, LogLevel } from './log.js';
export type { PetstoreOptions } from './options.js';
export { parseDraft, petStatuses, type Pet, type PetDraft, type PetStatus } from './pet.js';
export { createPetstore, type Petstore } from './petstore.js';
export type { Plugin, PluginHost, ReplyEvent } from './plugin.js';
export type { PetQuery, PetStorage, PetText, PetTextPage, PetTexts } from './storage.js';
export { memoryStorage } from './storage/memory.js';
export { fileStorage } from './storage/file.js';
