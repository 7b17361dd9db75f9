/** The petstore's figures for Prometheus, at `/metrics`. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { toByteString, type Plugin } from '../index.js';

/** An answer takes tenths of a millisecond, a sync some milliseconds, a disk that hangs 8 s. */
const secondBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10,
];
const petBuckets = [1, 4, 16, 64, 256, 1024, 4096];
/**
 * The methods that are counted by their names. All others are counted as `other`, for each value of
 * a label is a time series that Prometheus keeps.
 */
const namedMethod = /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/;

/**
 * Event-loop delay and the like, one set for all petstores: what collects them cannot be stopped.
 */
const ofProcess = new Registry();
collectDefaultMetrics({ register: ofProcess });

/**
 * Serves the figures of the petstore and its process, without a key: let only the collector reach
 * the path.
 */
export function metricsPlugin(): Plugin {
  return ({ storage, onReply, route: serve }) => {
    const registry = new Registry();
    const registers = [registry];
    const histogram = (name: string, help: string, buckets: number[], labelNames: string[] = []) =>
      new Histogram({ name, help, buckets, labelNames, registers });
    const gauge = (name: string, help: string, read: () => number | undefined): void => {
      // No figure where it is unknown: 0 would say that there are none.
      if (read() === undefined) return;
      const made: Gauge = new Gauge({
        name,
        help,
        registers,
        collect: () => made.set(read() ?? NaN),
      });
    };

    const requests = new Counter({
      name: 'http_requests_total',
      help: 'Requests answered.',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    const durations = histogram(
      'http_request_duration_seconds',
      'From the head of a request to its reply.',
      secondBuckets,
      ['method', 'route'],
    );
    onReply(({ method, route = 'none', status, milliseconds }) => {
      const labels = { method: namedMethod.test(method) ? method : 'other', route };
      requests.inc({ ...labels, status });
      durations.observe(labels, milliseconds / 1000);
    });

    const commitPets = histogram(
      'petstore_commit_pets',
      'Animals that one commit wrote.',
      petBuckets,
    );
    const commitSyncs = histogram(
      'petstore_commit_sync_seconds',
      'How long it took to write and sync.',
      secondBuckets,
    );
    storage.onCommit?.(({ count, syncMilliseconds }) => {
      commitPets.observe(count);
      commitSyncs.observe(syncMilliseconds / 1000);
    });

    gauge('petstore_pets', 'Animals held.', () => storage.size);
    gauge('petstore_commit_queue_pets', 'Animals that wait for a commit.', () => storage.waiting);

    const handler = async () => ({
      status: 200,
      headers: [],
      contentType: registry.contentType,
      body: toByteString((await registry.metrics()) + (await ofProcess.metrics())),
    });
    serve({ path: '/metrics', methods: { GET: { handler } } });
  };
}
