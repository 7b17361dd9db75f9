/** The plugin `metrics`: serves metrics for Prometheus at `/metrics`. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { toByteString, type Plugin } from '../index.js';

/**
 * The buckets: from fast responses (0.1 ms) and syncs (milliseconds) to a disk that hangs (8 s).
 */
const secondBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10,
];
const petBuckets = [1, 4, 16, 64, 256, 1024, 4096];
/**
 * The methods that are label values. All others count as `other`, because Prometheus keeps a time
 * series for each value of a label.
 */
const namedMethod = /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/;

/**
 * The members of a `Registry` of `prom-client`. They are declared here, so that the types of this
 * module need no other package.
 */
export interface MetricsRegistry {
  readonly contentType: string;
  metrics(): Promise<string>;
  registerMetric(metric: never): void;
}

/** Returns the first word of a fault. Only `status` keeps its value, because others have many. */
function faultLabel(fault: string): string {
  const [word = ''] = fault.split(',', 1);
  return word.startsWith('status=') ? word : word.replace(/=.*/, '');
}

/** The options of the plugin. */
export interface MetricsOptions {
  /**
   * A registry of the same `prom-client`, to which the plugin adds the metrics of the petstore but
   * not those of the process. Two petstores cannot share a registry.
   * @defaultValue a new registry, with the metrics of the process
   */
  readonly registry?: MetricsRegistry;
}

/** The metrics of the process, such as the lag of the event loop. */
let processMetrics: Registry | undefined;

/** Returns the metrics of the process, collected once, because collecting cannot be stopped. */
function metricsOfProcess(): Registry {
  if (processMetrics === undefined) {
    processMetrics = new Registry();
    collectDefaultMetrics({ register: processMetrics });
  }
  return processMetrics;
}

function isRegistry(value: unknown): value is Registry {
  return typeof Object(value).registerMetric === 'function';
}

/**
 * Serves metrics at `/metrics` without a key. Let only the collector reach the path.
 *
 * @throws TypeError if `registry` is not a registry
 */
export function metricsPlugin({ registry: given }: MetricsOptions = {}): Plugin {
  if (given !== undefined && !isRegistry(given))
    throw new TypeError('metricsPlugin: registry must be a Registry of prom-client');

  return ({ storage, onReply, onResponseEnd, ports, route: serve, isolatedKey }) => {
    // A registry has each metric once.
    if (isolatedKey !== undefined) return;
    const registry = given ?? new Registry();
    const registers = [registry];
    const ofProcess = given === undefined ? metricsOfProcess() : undefined;
    const histogram = (name: string, help: string, buckets: number[], labelNames: string[] = []) =>
      new Histogram({ name, help, buckets, labelNames, registers });
    const gauge = (name: string, help: string, read: () => number | undefined): void => {
      // An unknown value gets no metric, because 0 would be wrong.
      if (read() === undefined) return;
      const added: Gauge = new Gauge({
        name,
        help,
        registers,
        collect: () => added.set(read() ?? NaN),
      });
    };

    const requests = new Counter({
      name: 'http_requests_total',
      help: 'Responses sent.',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    const durations = histogram(
      'http_request_duration_seconds',
      'Time from the head of a request to its reply.',
      secondBuckets,
      ['method', 'route'],
    );
    const faults = new Counter({
      name: 'petstore_faults_total',
      help: 'Requests that met a fault, by its first word.',
      labelNames: ['fault'],
      registers,
    });
    const cuts = new Counter({
      name: 'petstore_cut_responses_total',
      help: 'Responses that did not reach their end.',
      labelNames: ['cut'],
      registers,
    });
    onReply(({ method, route = 'none', status, milliseconds, fault, cut }) => {
      const labels = { method: namedMethod.test(method) ? method : 'other', route };
      requests.inc({ ...labels, status: cut === 'drop' ? 'none' : status });
      durations.observe(labels, milliseconds / 1000);
      if (fault !== undefined) faults.inc({ fault: faultLabel(fault) });
    });
    onResponseEnd(({ isWhole, cut = 'client' }) => {
      if (!isWhole) cuts.inc({ cut });
    });

    const commitPets = histogram('petstore_commit_pets', 'Pets written by one commit.', petBuckets);
    const commitSyncs = histogram(
      'petstore_commit_sync_seconds',
      'Time to write and sync one commit.',
      secondBuckets,
    );
    storage.onCommit?.(({ count, syncMilliseconds }) => {
      commitPets.observe(count);
      commitSyncs.observe(syncMilliseconds / 1000);
    });

    gauge('petstore_pets', 'Pets in the store.', () => storage.size);
    gauge('petstore_commit_queue_pets', 'Pets that wait for a commit.', () => storage.waiting);

    const portCount: Gauge = new Gauge({
      name: 'petstore_ports',
      help: 'Open ports, by the interface of Node that they use.',
      labelNames: ['mode'],
      registers,
      collect: () => {
        for (const mode of ['fast', 'documented'] as const)
          portCount.set({ mode }, ports().filter((each) => each.mode === mode).length);
      },
    });

    const handler = async () => ({
      status: 200,
      headers: [],
      contentType: registry.contentType,
      body: toByteString((await registry.metrics()) + ((await ofProcess?.metrics()) ?? '')),
    });
    serve({ path: '/metrics', methods: { GET: { handler } } });
  };
}
