/** The public API of the package's main entry. docs/reference.md lists it by task. */

// A petstore: its options, keys, log and ports.
export { createPetstore, type Petstore } from './service/index.js';
export type { PetstoreOptions } from './options.js';
export { digestOfKey, KeyRing, type KeyEntry, type VerifyKey } from './auth.js';
export type { Log, LogLevel } from './log.js';
export type { Listening, ListenOptions, TlsPair } from './http/index.js';

// Times of RFC 3339.
export { parseTime, timeRule } from './clock.js';

// Errors.
export {
  codeOf,
  errorCodes,
  PetstoreError,
  reasonOf,
  type ErrorCode,
  type ErrorDetails,
  type ReplyErrorCode,
} from './errors.js';

// Pets and JSON.
export { checkDraft, checkKeyUse, checkQuery, petJson } from './engine/index.js';
export { int64Schema, matchesFilter, parseDraft, petFields, petStatuses } from './pet.js';
export type {
  FieldType,
  FilterName,
  Pet,
  PetDraft,
  PetField,
  PetFilter,
  PetStatus,
} from './pet.js';
export {
  int64OfJsonNumber,
  JsonNumber,
  maxBodyValues,
  parseJson,
  toByteString,
  type ByteString,
  type JsonValue,
} from './json.js';

// Plugins: hooks, routes, replies, pages, and their part of the OpenAPI document.
export type {
  AcceptedRequest,
  NextOperation,
  Plugin,
  PluginHost,
  PluginRequest,
  ReplyEvent,
  ReplySource,
  RequestHead,
  ResponseEnd,
  Wrapper,
} from './plugin.js';
export type {
  Deprecation,
  Operation,
  OperationRequest,
  Route,
  RouteRequest,
  RouteSummary,
} from './router.js';
export type { Query } from './request.js';
export {
  emptyReply,
  json,
  jsonReply,
  replyTo,
  type HandlerResult,
  type HeaderValues,
  type Reply,
} from './reply.js';
export { afterParameter, limitParameter, listDocument, pageReply, parsePage } from './paging.js';
export { readParameter, type ListParameter, type ListParameters } from './paging.js';
export {
  errorResponses,
  jsonContent,
  response,
  schemaRef,
  type OpenApiDocument,
  type OpenApiOperation,
  type OpenApiValue,
} from './openapi.js';

// Storages: their interface, and the storages in memory and in a file.
export type {
  Commit,
  IdempotencyKeyUse,
  ImportSource,
  ImportTarget,
  PageQuery,
  PetQuery,
  PetStorage,
  PetTexts,
  RecordKind,
  Records,
  StartDigests,
  StoredText,
  TextPage,
  Texts,
  TextTarget,
} from './storage.js';
export { memoryStorage, type MemoryStorage, type MemoryStorageOptions } from './memory/index.js';
export {
  checkFile,
  copyPets,
  copyRecords,
  fileImport,
  fileRecordNames,
  fileStorage,
  fileTarget,
  salvageFile,
  type CopyProgress,
  type CopyReport,
  type CopyTarget,
  type FileImport,
  type FileReport,
  type FileStorageOptions,
  type LeftOutLine,
  type SalvageReport,
} from './file/index.js';
export { nodeDisk, type Disk, type FileFacts } from './journal/index.js';

// Exported by 1.0.0 for its own command line.
export {
  /** @deprecated Removed in 2.0. Use `util.inspect`. */
  detailOf,
} from './errors.js';
export {
  /** @deprecated Removed in 2.0. Use the number 16_777_216. */
  largestBodyBytes,
} from './options.js';
export {
  /** @deprecated Removed in 2.0. Use `fs.mkdir`. */
  makeFolders,
  /** @deprecated Removed in 2.0. Use `fs.fsync` on the folder. */
  syncFolder,
} from './journal/index.js';
