// The public types of the package: the names of each entry, and all declarations that they use,
// without comments. `make api` writes this file from the output of tsc. A test compares the two,
// so that every change of the public types is visible in this file.

// petstore
//   AcceptedRequest
//   ByteString
//   Commit
//   CopyProgress
//   CopyReport
//   CopyTarget
//   Deprecation
//   Disk
//   ErrorCode
//   ErrorDetails
//   FieldType
//   FileFacts
//   FileImport
//   FileReport
//   FileStorageOptions
//   FilterName
//   HandlerResult
//   HeaderValues
//   IdempotencyKeyUse
//   ImportSource
//   ImportTarget
//   JsonNumber
//   JsonValue
//   KeyEntry
//   KeyRing
//   LeftOutLine
//   ListParameter
//   ListParameters
//   ListenOptions
//   Listening
//   Log
//   LogLevel
//   MemoryStorage
//   MemoryStorageOptions
//   NextOperation
//   OpenApiDocument
//   OpenApiOperation
//   OpenApiValue
//   Operation
//   OperationRequest
//   PageQuery
//   Pet
//   PetDraft
//   PetField
//   PetFilter
//   PetQuery
//   PetStatus
//   PetStorage
//   PetTexts
//   Petstore
//   PetstoreError
//   PetstoreOptions
//   Plugin
//   PluginHost
//   PluginRequest
//   Query
//   RecordKind
//   Records
//   Reply
//   ReplyErrorCode
//   ReplyEvent
//   ReplySource
//   RequestHead
//   ResponseEnd
//   Route
//   RouteRequest
//   RouteSummary
//   SalvageReport
//   StartDigests
//   StoredText
//   TextPage
//   TextTarget
//   Texts
//   TlsPair
//   VerifyKey
//   Wrapper
//   afterParameter
//   checkDraft
//   checkFile
//   checkKeyUse
//   checkQuery
//   codeOf
//   copyPets
//   copyRecords
//   createPetstore
//   detailOf
//   digestOfKey
//   emptyReply
//   errorCodes
//   errorResponses
//   fileImport
//   fileRecordNames
//   fileStorage
//   fileTarget
//   int64OfJsonNumber
//   int64Schema
//   json
//   jsonContent
//   jsonReply
//   largestBodyBytes
//   limitParameter
//   listDocument
//   makeFolders
//   matchesFilter
//   maxBodyValues
//   memoryStorage
//   nodeDisk
//   pageReply
//   parseDraft
//   parseJson
//   parsePage
//   parseTime
//   petFields
//   petJson
//   petStatuses
//   readParameter
//   reasonOf
//   replyTo
//   response
//   salvageFile
//   schemaRef
//   syncFolder
//   timeRule
//   toByteString

// petstore/conformance
//   Level
//   ListedRule
//   PetstoreUnderTest
//   RegisterTest
//   RuleDescription
//   RuleFailure
//   RuleOutcome
//   TestedPetstore
//   UnusableServer
//   Verdict
//   countRules
//   isPetstoreUrl
//   levels
//   listRules
//   testInsertOnce
//   testPetstore
//   testRecords
//   testStorage
//   verifyPetstore

// petstore/plugins/cors
//   CorsOptions
//   corsPlugin

// petstore/plugins/docs
//   docsPlugin

// petstore/plugins/faults
//   FaultRule
//   FaultWord
//   FaultsControl
//   FaultsOptions
//   FaultsPlugin
//   JournalItem
//   RequestFilter
//   faultWords
//   faultsPlugin

// petstore/plugins/metrics
//   MetricsOptions
//   MetricsRegistry
//   metricsPlugin

// petstore/plugins/orders
//   ordersPlugin

// petstore/postgres
//   Migration
//   MissingTables
//   PostgresPool
//   PostgresStorageOptions
//   databaseUrlProblem
//   isDatabaseUrl
//   migratePostgres
//   migrationSql
//   postgresImport
//   postgresRecordNames
//   postgresStorage
//   postgresTarget
//   seedPostgres
//   untilThere
//   waitForDatabase
//   wantedUrl

interface AcceptedRequest extends PluginRequest {
    readonly route: string;
    readonly body: string | undefined;
    readonly reportFault: (fault: string) => void;
}

type ByteString = string & {
    readonly [bytes]: true;
};

type ClientEvents = Emitter<'error' | 'end', unknown> & Emitter<'notice', Notice>;

type Closer = () => void | PromiseLike<void>;

interface Commit {
    readonly count: number;
    readonly syncMilliseconds: number;
}

type CopyProgress = (what: 'comparing' | 'copying' | 'checking', count: number) => void;

interface CopyReport {
    readonly count: number;
    readonly present: number;
    readonly sha256: string;
}

interface CopyTarget {
    readonly open: () => Promise<PetStorage>;
    readonly openTarget: (records?: string) => Promise<TextTarget>;
}

interface CorsOptions {
    readonly origins: readonly string[];
}

interface Deprecation {
    readonly since: number;
    readonly sunset: number;
    readonly successor: string;
}

type Disk = typeof nodeDisk;

type DocumentChange = (document: OpenApiDocument) => void;

interface Emitter<Event, Value> {
    on(event: Event, listener: (value: Value) => void): unknown;
    removeListener(event: Event, listener: (value: Value) => void): unknown;
}

type EndWatcher = (event: ResponseEnd, request: PluginRequest) => void;

type ErrorCode = ReplyErrorCode | 'storage_damaged' | 'storage_in_use' | 'storage_unusable';

interface ErrorDetails {
    readonly headers?: readonly string[];
    readonly cause?: unknown;
}

interface FaultRule {
    readonly method?: string;
    readonly path?: string;
    readonly fault: string;
    readonly times?: number;
    readonly skip?: number;
    readonly skipped?: number;
    readonly left?: number | null;
    readonly drawn?: number;
}

interface FaultWord {
    readonly syntax: string;
    readonly about: string;
    readonly example: string;
}

interface FaultsControl {
    set(rules: readonly FaultRule[], options?: {
        readonly seed?: number;
    }): void;
    rules(): readonly FaultRule[];
    requests(filter?: RequestFilter): readonly JournalItem[];
    reset(options?: {
        readonly clock?: string;
    }): Promise<void>;
}

interface FaultsOptions {
    readonly rules?: readonly FaultRule[];
    readonly seed?: number;
    readonly journalSize?: number;
}

interface FaultsPlugin extends FaultsControl {
    (host: PluginHost): void;
    forKey(name: string): FaultsControl;
}

interface FieldType<Value> {
    readonly rule: string;
    readonly read: (json: JsonValue) => Value | undefined;
    readonly programRule: string;
    readonly is: (value: unknown) => boolean;
    readonly write: (value: unknown) => string;
    readonly pattern: (lastByte: string) => string;
    readonly parameterRule: string;
    readonly parse: (text: string) => Value | undefined;
    readonly values?: readonly Value[];
    readonly schema: Readonly<Record<string, string | number | readonly string[]>>;
}

type Fields = typeof requiredFields & typeof optionalFields;

type FileFacts = Pick<Stats, 'size' | 'dev' | 'ino' | 'blksize' | 'isFile'>;

interface FileImport extends ImportTarget {
    readonly isEmpty: boolean;
}

interface FileReport {
    readonly verdict: 'sound' | 'torn' | 'damaged';
    readonly problem: Problem | undefined;
    readonly animals: number;
    readonly byStatus: Readonly<Record<PetStatus | 'none', number>>;
    readonly idempotencyKeys: number;
    readonly commits: number;
    readonly bytes: number;
    readonly committedBytes: number;
    readonly tornBytes: number;
}

interface FileStorageOptions extends JournalOptions {
    readonly mend?: string;
}

type FilterName = {
    [Name in keyof Fields]: Fields[Name] extends FilterableType<unknown> ? Name : never;
}[keyof Fields];

interface FilterableType<Value> extends FieldType<Value> {
    readonly isFilterable: true;
}

type HandlerResult = Reply | Response;

type HeaderDescriptions = Readonly<Record<string, string | RequiredHeader>>;

type HeaderMaker = (request: PluginRequest) => HeaderValues;

type HeaderValues = Readonly<Record<string, string>> | Headers | readonly string[];

type HttpMode = 'fast' | 'documented';

interface IdempotencyKeyUse {
    readonly key: string;
    readonly body: string;
    readonly at: number;
}

interface ImportSource {
    readonly digest: string;
    readonly startDigests?: StartDigests;
}

interface ImportTarget {
    readonly start: number;
    add(drafts: readonly PetDraft[], startDigest?: string): Promise<number>;
    close(): Promise<void>;
}

interface JournalItem {
    readonly id: number;
    readonly time: string;
    readonly method: string;
    readonly path: string;
    readonly query?: string;
    readonly route?: string;
    readonly key?: string;
    readonly idempotencyKey?: string;
    readonly bodyLength?: number;
    readonly bodySha256?: string;
    readonly status?: number;
    readonly fault?: string;
    readonly cut: boolean;
    readonly replayed: boolean;
    readonly ms?: number;
}

interface JournalOptions {
    readonly log?: Log;
    readonly clock?: () => number;
    readonly disk?: Disk;
    readonly hint?: string;
}

class JsonNumber {
    readonly text: string;
    constructor(text: string);
}

type JsonValue = null | boolean | string | JsonNumber | readonly JsonValue[] | ReadonlyMap<string, JsonValue>;

interface KeyEntry {
    readonly name: string;
    readonly digest: Buffer;
    readonly expiresAt?: number;
}

class KeyRing {
    #private;
    constructor(entries: readonly KeyEntry[], clock: () => number);
    verify(token: string, clock?: () => number): string | undefined;
}

interface LeftOutLine {
    readonly line: number;
    readonly animal?: bigint;
    readonly what: string;
}

type Level = (typeof levels)[number];

interface LinePosition {
    readonly line: number;
    readonly byte: number;
}

interface ListParameter<Value> {
    readonly name: string;
    readonly read: (text: string) => Value | undefined;
    readonly refusal: PetstoreError;
    readonly describe: (things: string) => string;
    readonly schema: OpenApiValue;
    readonly example?: OpenApiValue;
}

type ListParameters<Asked> = {
    readonly [Name in keyof Asked]-?: ListParameter<Exclude<Asked[Name], undefined>>;
};

interface ListedRule extends RuleDescription {
    readonly sources: readonly string[];
}

interface ListenOptions {
    readonly port?: number;
    readonly host?: string;
    readonly tls?: TlsPair;
    readonly keepAliveSeconds?: number;
    readonly nodeInterface?: NodeInterface;
}

interface Listening {
    readonly url: string;
    readonly port: number;
    readonly setTls: (tls: TlsPair) => void;
    readonly mode: HttpMode;
    readonly cutRequests: number;
}

type Log = (level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>) => void;

type LogLevel = 'info' | 'warn' | 'error';

interface MemoryStorage extends PetStorage {
    reset(): Promise<void>;
}

interface MemoryStorageOptions {
    readonly pets?: Iterable<PetDraft>;
}

interface MetricsOptions {
    readonly registry?: MetricsRegistry;
}

interface MetricsRegistry {
    readonly contentType: string;
    metrics(): Promise<string>;
    registerMetric(metric: never): void;
}

interface Migration {
    readonly from: number;
    readonly to: number;
    readonly warnings: readonly string[];
}

class MissingTables extends PetstoreError {
    readonly version: number;
    constructor(version: number);
}

type NextOperation = (hold?: () => PromiseLike<unknown>) => Promise<Reply>;

type NodeInterface = 'auto' | 'check' | 'documented';

type Notice = Readonly<Partial<Record<'severity' | 'message' | 'routine', string | undefined>>>;

interface OpenApiDocument {
    [name: string]: OpenApiValue;
    readonly components: {
        readonly schemas: {
            [name: string]: OpenApiValue;
        };
        readonly securitySchemes: OpenApiValue;
    };
    readonly tags: {
        readonly name: string;
        readonly description: string;
    }[];
}

type OpenApiMap = {
    readonly [name: string]: OpenApiValue;
};

interface OpenApiOperation {
    readonly [name: string]: OpenApiValue;
    readonly operationId: string;
    readonly responses: OpenApiMap;
}

type OpenApiValue = string | number | boolean | null | readonly OpenApiValue[] | OpenApiMap;

type OpenStorage = () => PetStorage | Promise<PetStorage>;

interface Operation {
    readonly handler: (request: RouteRequest) => HandlerResult | PromiseLike<HandlerResult>;
    readonly readsBody?: boolean | 'optional';
    readonly awaitsHold?: boolean;
    readonly survivesReset?: boolean;
    readonly document?: OpenApiOperation;
}

interface OperationRequest {
    readonly method: string;
    readonly params: Params;
    readonly query: Query;
    readonly body: string;
    readonly keyName: string | undefined;
    readonly idempotencyKey: string | undefined;
    readonly basePath: string;
    readonly lacksSlash: boolean;
    readonly hold?: (() => Promise<void>) | undefined;
}

interface PageQuery {
    readonly limit: number;
    readonly after?: bigint | undefined;
}

type Params = Readonly<Record<string, string>>;

interface Pet extends PetDraft {
    readonly id: bigint;
}

type PetDraft = Values<typeof requiredFields> & Partial<Values<typeof optionalFields>>;

interface PetField {
    readonly name: string;
    readonly type: FieldType<unknown>;
    readonly isRequired: boolean;
    readonly isFilterable: boolean;
    readonly key: string;
}

type PetFilter = {
    readonly [Name in FilterName]?: PetDraft[Name] | undefined;
};

interface PetQuery extends PageQuery, PetFilter {
}

type PetStatus = (typeof petStatuses)[number];

interface PetStorage {
    readonly durable: boolean;
    readonly size?: number | undefined;
    readonly waiting?: number | undefined;
    onCommit?(watcher: (commit: Commit) => void): void;
    insert(draft: PetDraft): Promise<Pet>;
    insertOnce?(draft: PetDraft, keyUse: IdempotencyKeyUse): Promise<Pet>;
    readonly keyClock?: () => number;
    get(id: bigint): Promise<Pet | undefined>;
    list(query: PetQuery): Promise<readonly Pet[]>;
    ready?(): Promise<void>;
    reset?(): Promise<void>;
    fresh?(): PetStorage;
    onReset?(watcher: () => void): void;
    close(): Promise<void>;
    readonly texts?: PetTexts;
    records?<Draft>(name: string, kind: RecordKind<Draft>): Records<Draft>;
}

interface PetTexts extends Texts<PetDraft, PetQuery> {
    insertOnce?(draft: PetDraft, keyUse: IdempotencyKeyUse): StoredText | Promise<StoredText>;
}

interface Petstore {
    readonly handler: (request: IncomingMessage, response: ServerResponse, next?: (error: unknown) => void) => void;
    readonly fetch: {
        (request: Request | string | URL, init?: RequestInit): Promise<Response>;
        (request: Request, server: object): Promise<Response>;
    };
    readonly listen: (options?: ListenOptions) => Promise<Listening>;
    readonly ready: () => Promise<void>;
    readonly drain: () => void;
    readonly close: () => Promise<void>;
    readonly [Symbol.asyncDispose]: () => Promise<void>;
    readonly storage: PetStorage;
}

class PetstoreError extends Error {
    #private;
    readonly name = "PetstoreError";
    readonly code: ErrorCode;
    readonly status: number | undefined;
    readonly headers: readonly string[];
    constructor(code: ErrorCode, message: string, details?: ErrorDetails);
    get body(): string;
}

interface PetstoreOptions {
    readonly keys: readonly string[] | VerifyKey;
    readonly storage?: PetStorage;
    readonly clock?: () => number;
    readonly plugins?: readonly Plugin[];
    readonly log?: Log;
    readonly maxBodyBytes?: number;
    readonly isolate?: boolean;
    readonly baseUrl?: string;
    readonly stagingBaseUrl?: string;
}

interface PetstoreUnderTest {
    readonly url: string | URL;
    readonly key: string;
    readonly level?: Level;
    readonly only?: readonly string[];
    readonly category?: string;
    readonly timeoutSeconds?: number;
    readonly slow?: boolean;
    readonly stories?: number;
    readonly seed?: number;
    readonly onNote?: (note: string) => void;
}

class Pieces {
    readonly parts: readonly ByteString[];
    readonly length: number;
    constructor(parts: readonly ByteString[]);
    toString(): ByteString;
}

type Plugin = (host: PluginHost) => void | PromiseLike<void>;

interface PluginHost {
    route(route: Route): void;
    routes(): readonly RouteSummary[];
    ports(): readonly PortSummary[];
    onStart(callback: StartCallback): void;
    addHeaders(make: HeaderMaker): void;
    around(wrapper: Wrapper): void;
    onReply(watcher: ReplyWatcher): void;
    onResponseEnd(watcher: EndWatcher): void;
    describe(change: DocumentChange): void;
    waitFor(opening: PromiseLike<unknown>): void;
    onClose(close: Closer): void;
    readonly storage: PetStorage;
    readonly clock: () => number;
    setClock(time: number | undefined): void;
    readonly log: Log;
    readonly isolatedKey: string | undefined;
}

interface PluginRequest {
    readonly method: string;
    readonly path: string;
    readonly query: string;
    readonly header: (name: string) => string | undefined;
    readonly route: string | undefined;
    readonly keyName: string | undefined;
    readonly address: string | undefined;
    readonly onAbandoned: (callback: () => void) => void;
    readonly isOutdated: () => boolean;
}

type PoolEvents = Emitter<'error', Error> & Emitter<'connect', PostgresClient>;

interface PortSummary {
    readonly url: string;
    readonly mode: 'fast' | 'documented';
}

interface PostgresClient extends ClientEvents {
    query(query: Query): Promise<{
        readonly rows: readonly Row[];
    }>;
    release(destroy?: boolean): void;
}

interface PostgresPool extends PoolEvents {
    connect(): Promise<PostgresClient>;
    end(): Promise<void>;
    readonly options?: {
        readonly connectionTimeoutMillis?: number | null | undefined;
        readonly max?: number | undefined;
    };
}

interface PostgresStorageOptions {
    readonly log?: Log;
    readonly maxConnections?: number;
    readonly isSource?: boolean;
}

interface Problem extends LinePosition {
    readonly what: string;
}

interface Query {
    text: string;
    name?: string | undefined;
    values: unknown[];
    binary: boolean;
    types: {
        getTypeParser(): (bytes: Buffer | string) => ByteString;
    };
}

class Query {
    #private;
    readonly text: string;
    constructor(text: string);
    get(name: string): string | undefined;
}

interface RecordKind<Draft> {
    readonly json: (id: bigint, draft: Draft) => ByteString;
    readonly parse: (json: ByteString) => {
        readonly id: bigint;
        readonly draft: Draft;
    };
}

interface Records<Draft> extends Texts<Draft> {
    insert(draft: Draft): Promise<StoredText>;
    get(id: bigint): Promise<ByteString | undefined>;
    list(query: PageQuery): Promise<TextPage>;
    readonly opened: Promise<void>;
}

type RegisterTest = (name: string, run: (...context: readonly unknown[]) => Promise<void>) => unknown;

interface Reply {
    readonly status: number;
    readonly headers: readonly string[];
    readonly body?: ByteString | Pieces;
    readonly contentType?: string;
    readonly cacheControl?: string;
    readonly endsConnection?: boolean;
    readonly cut?: 'drop' | 'truncate' | 'end';
    readonly dribbleMs?: number;
    readonly isReplay?: boolean;
}

type ReplyErrorCode = keyof typeof errorCodes;

interface ReplyEvent {
    readonly method: string;
    readonly route?: string;
    readonly status: number;
    readonly milliseconds: number;
    readonly keyName?: string;
    readonly fault?: string;
    readonly cut?: NonNullable<Reply['cut']> | 'client';
    readonly isReplay?: true;
}

type ReplySource = PluginRequest;

type ReplyWatcher = (event: ReplyEvent, request: PluginRequest) => void;

interface RequestFilter {
    readonly method?: string;
    readonly path?: string;
    readonly status?: number;
    readonly idempotencyKey?: string;
    readonly fault?: string;
}

type RequestHead = PluginRequest;

interface RequiredHeader {
    readonly description: string;
    readonly required: true;
}

interface ResponseEnd extends ReplyEvent {
    readonly isWhole: boolean;
}

interface Route {
    readonly path: string;
    readonly methods: Readonly<Record<string, Operation>>;
    readonly deprecation?: Deprecation;
}

interface RouteRequest extends OperationRequest {
    readonly json: () => unknown;
}

interface RouteSummary {
    readonly path: string;
    readonly methods: readonly string[];
}

type Row = Readonly<Record<string, ByteString | null>>;

interface RuleDescription {
    readonly number: string;
    readonly sentence: string;
    readonly chapter: string;
    readonly cost: string;
    readonly level: Level;
}

interface RuleFailure {
    readonly sent: string;
    readonly came: string;
    readonly expected: string;
    readonly command: string;
    readonly sentBytes: string;
    readonly cameBytes: string;
}

interface RuleOutcome {
    readonly outcome: 'passed' | 'warned' | 'failed' | 'untried' | 'inapplicable';
    readonly source: string;
    readonly reason?: string;
    readonly failure?: RuleFailure;
}

interface SalvageReport {
    readonly animals: number;
    readonly missing: readonly {
        readonly from: bigint;
        readonly to: bigint;
    }[];
    readonly leftOut: readonly LeftOutLine[];
}

type StartCallback = () => unknown;

type StartDigests = (counts: ReadonlySet<number>) => ReadonlyMap<number, string>;

interface StoredText {
    readonly id: bigint;
    readonly json: ByteString;
    readonly isReplay?: true;
}

interface TestedPetstore extends PetstoreUnderTest {
    readonly test?: RegisterTest;
    readonly allowUntried?: boolean;
}

interface TextPage {
    readonly texts: readonly ByteString[];
    readonly next?: bigint;
}

interface TextTarget {
    adopt(texts: readonly StoredText[]): Promise<void>;
    close(): Promise<void>;
}

interface Texts<Draft, Query extends PageQuery = PageQuery> {
    insert(draft: Draft): StoredText | Promise<StoredText>;
    get(id: bigint): ByteString | undefined | Promise<ByteString | undefined>;
    list(query: Query): TextPage | Promise<TextPage>;
}

interface TlsPair {
    readonly cert: string | Buffer;
    readonly key: string | Buffer;
}

class UnusableServer extends Error {
    readonly name = "UnusableServer";
    readonly isUnreachable: boolean;
    constructor(message: string, isUnreachable: boolean);
}

type Values<Fields> = {
    readonly [Name in keyof Fields]: Fields[Name] extends FieldType<infer Value> ? Value : never;
};

interface Verdict extends RuleDescription, RuleOutcome {
}

type VerifyKey = (token: string, clock?: () => number) => string | undefined | Promise<string | undefined>;

type Wrapper = (request: AcceptedRequest, next: NextOperation) => Promise<HandlerResult>;

const afterParameter: Readonly<ListParameter<bigint>>;

const bytes: unique symbol;

function checkDraft(draft: PetDraft, absent?: null): PetDraft;

function checkFile(path: string): Promise<FileReport>;

function checkKeyUse({ key, body, at }: IdempotencyKeyUse): void;

function checkQuery({ limit, after }: PageQuery): void;

function codeOf(thrown: unknown): string | undefined;

function copyPets(from: PetStorage, to: CopyTarget, progress?: CopyProgress): Promise<CopyReport>;

function copyRecords(name: string | undefined, from: PetStorage, to: CopyTarget, progress?: CopyProgress): Promise<CopyReport>;

function corsPlugin({ origins }: CorsOptions): Plugin;

function countRules(options: Omit<PetstoreUnderTest, 'url' | 'key'>): number;

function createPetstore(options: PetstoreOptions): Petstore;

function databaseUrlProblem(text: string): string | undefined;

function detailOf(thrown: unknown): string;

function digestOfKey(key: string): Buffer;

function docsPlugin(): Plugin;

function emptyReply(status: number, headers: readonly string[]): Reply;

const errorCodes: Readonly<{
    invalid_parameter: {
        status: number;
    };
    invalid_json: {
        status: number;
    };
    invalid_body: {
        status: number;
    };
    bad_request: {
        status: number;
        endsConnection: true;
    };
    unauthorized: {
        status: number;
    };
    forbidden: {
        status: number;
    };
    not_found: {
        status: number;
    };
    method_not_allowed: {
        status: number;
    };
    request_timeout: {
        status: number;
        endsConnection: true;
    };
    idempotency_in_flight: {
        status: number;
        isRetryable: true;
    };
    content_too_large: {
        status: number;
        endsConnection: true;
    };
    unsupported_media_type: {
        status: number;
    };
    expectation_failed: {
        status: number;
    };
    idempotency_mismatch: {
        status: number;
    };
    too_many_requests: {
        status: number;
    };
    headers_too_large: {
        status: number;
        endsConnection: true;
    };
    internal_error: {
        status: number;
    };
    not_implemented: {
        status: number;
    };
    bad_gateway: {
        status: number;
    };
    unavailable: {
        status: number;
        isRetryable: true;
    };
    gateway_timeout: {
        status: number;
    };
}>;

function errorResponses(codes: readonly (keyof typeof errors)[], headers?: HeaderDescriptions): OpenApiMap;

const errors: {
    readonly invalid_parameter: readonly ['A parameter has an invalid value.'];
    readonly invalid_body: readonly ['Body is missing required fields or contains invalid values.'];
    readonly unauthorized: readonly ['API key missing or invalid.', {
        readonly 'WWW-Authenticate': RequiredHeader;
    }];
    readonly forbidden: readonly ['A policy forbids this request.'];
    readonly not_found: readonly ['The requested resource could not be found.'];
    readonly request_timeout: readonly ['The request did not arrive in time.'];
    readonly idempotency_in_flight: readonly ['The first request with this key is in flight.', {
        'Retry-After': RequiredHeader;
    }];
    readonly content_too_large: readonly ['Body is too large.'];
    readonly unsupported_media_type: readonly ['Body is not JSON.', {
        readonly Accept: RequiredHeader;
    }];
    readonly idempotency_mismatch: readonly ['The Idempotency-Key was used with another body.'];
    readonly too_many_requests: readonly ['Too many requests.', {
        'Retry-After': RequiredHeader;
    }];
    readonly internal_error: readonly ['The server failed.'];
    readonly bad_gateway: readonly ['A proxy got no valid response from the server.'];
    readonly unavailable: readonly ['The server cannot do this now.', {
        'Retry-After': RequiredHeader;
    }];
    readonly gateway_timeout: readonly ['A proxy got no response from the server in time.'];
};

const faultWords: readonly FaultWord[];

function faultsPlugin(options?: FaultsOptions): FaultsPlugin;

function fileImport(path: string, source: string | ImportSource, options?: FileStorageOptions): Promise<FileImport>;

function fileRecordNames(path: string, log?: Log): Promise<readonly string[]>;

function fileStorage(path: string, options?: FileStorageOptions): Promise<PetStorage>;

function fileTarget(path: string, records?: string): Promise<TextTarget>;

function int64OfJsonNumber(number: string): bigint | undefined;

const int64Schema: Readonly<{
    type: "integer";
    format: "int64";
    minimum: number;
    maximum: number;
}>;

function isDatabaseUrl(text: string): boolean;

function isPetstoreUrl({ protocol, username, password, search, hash }: URL): boolean;

function json(value: unknown, { status, headers }?: {
    status?: number;
    headers?: HeaderValues;
}): Reply;

function jsonContent(schema: OpenApiValue, example: OpenApiValue): OpenApiValue;

function jsonReply(status: number, body: ByteString | Pieces, headers?: readonly string[]): Reply;

const largestBodyBytes: number;

const levels: readonly ['specification', 'http', 'full'];

const limitParameter: Readonly<ListParameter<number>>;

function listDocument<Asked>(operationId: string, tag: string, things: string, parameters: ListParameters<Asked>, content: OpenApiValue): OpenApiOperation;

function listRules(options: Omit<PetstoreUnderTest, 'url' | 'key'>): readonly ListedRule[];

function makeFolders(disk: Disk, folder: string): Promise<void>;

function matchesFilter(pet: PetFilter, filter: PetFilter): boolean;

const maxBodyValues = 65536;

function memoryStorage(options?: MemoryStorageOptions): MemoryStorage;

function metricsPlugin({ registry: given }?: MetricsOptions): Plugin;

function migratePostgres(database: string | PostgresPool): Promise<Migration>;

function migrationSql(schema?: string): string;

const nodeDisk: Readonly<{
    lockFlags: number;
    lock: (descriptor: number, path: string) => Promise<void>;
    write: (descriptor: number, bytes: Uint8Array) => Promise<number>;
    datasync: typeof fs.fdatasync.__promisify__;
    append: (descriptor: number, bytes: Uint8Array) => Promise<number>;
    appendFlags: number;
    open: (path: string, flags: number, mode: number) => Promise<number>;
    close: typeof fs.close.__promisify__;
    read: (descriptor: number, into: Uint8Array, position: number) => Promise<number>;
    sync: typeof fs.fsync.__promisify__;
    truncate: (descriptor: number, size: number) => Promise<void>;
    factsOf: (descriptor: number) => Promise<FileFacts>;
    factsAt: (path: string) => Promise<FileFacts>;
    makeFolder: (path: string, mode: number) => Promise<void>;
    remove: (path: string) => Promise<void>;
}>;

const optionalFields: {
    status: FilterableType<"available" | "pending" | "sold">;
};

function ordersPlugin(): Plugin;

function pageReply(path: string, asked: PageQuery, { texts, next }: TextPage): Reply;

function parameter(place: 'path' | 'query' | 'header', name: string, description: string, schema: OpenApiValue, example?: OpenApiValue): {
    name: string;
    in: "header" | "path" | "query";
    required: boolean;
    description: string;
    schema: OpenApiValue;
} | {
    name: string;
    in: "header" | "path" | "query";
    required: boolean;
    description: string;
    schema: OpenApiValue;
    example: OpenApiValue;
};

function parseDraft(value: JsonValue, what?: string): PetDraft;

function parseJson(byteString: string, maxValues?: number): JsonValue;

function parsePage(query: Query): PageQuery;

function parseTime(text: string): number | undefined;

const petFields: readonly PetField[];

function petJson(id: bigint, draft: PetDraft): ByteString;

const petStatuses: readonly ["available", "pending", "sold"];

function postgresImport(url: string, source: string | ImportSource, log: Log): Promise<ImportTarget>;

function postgresRecordNames(database: string | PostgresPool): Promise<readonly string[]>;

function postgresStorage(database: string | PostgresPool, options?: PostgresStorageOptions): Promise<PetStorage>;

function postgresTarget(url: string, records?: string): Promise<TextTarget>;

function readParameter<Value>(query: Query, { name, read, refusal }: ListParameter<Value>): Value | undefined;

function reasonOf(thrown: unknown): string;

function replyTo(error: PetstoreError): Reply;

const requiredFields: {
    name: FieldType<string>;
    categoryId: FieldType<bigint>;
};

function response(description: string, content: OpenApiValue, headers?: HeaderDescriptions): OpenApiValue;

function salvageFile(path: string, outPath: string): Promise<SalvageReport>;

function schemaRef(name: string): OpenApiValue;

function seedPostgres(url: string, drafts: readonly PetDraft[], log: Log): Promise<boolean>;

function syncFolder(disk: Disk, folder: string): Promise<void>;

function testInsertOnce({ open }: {
    readonly open: OpenStorage;
}): void;

function testPetstore(options: TestedPetstore): void;

function testRecords({ open }: {
    readonly open: OpenStorage;
}): void;

function testStorage({ open }: {
    readonly open: OpenStorage;
}): void;

const timeRule = "a time of RFC 3339 such as 2030-12-05T23:59:50Z, from 1970 to the end of 9999 in UTC";

function toByteString(text: string): ByteString;

const untilThere: typeof waitForDatabase;

function verifyPetstore(options: PetstoreUnderTest): AsyncGenerator<Verdict>;

function waitForDatabase<Value>(open: () => Promise<Value>, log: Log): Promise<Value>;

function wantedUrl(text: string): string | undefined;
