// BullMQ on Node, as its documentation has it for throughput: one connection for all producers, finished jobs removed.
// The arguments and the protocol are those of every contender, see tests/bench/README.md.
import readline from 'node:readline';
import { Queue, Worker } from 'bullmq';
import IORedis from 'ioredis';

const [role, ...words] = process.argv.slice(2);
const options = { queue: 'bench', first: 1_000_000, jobs: Infinity, payload: 100, concurrency: 10, sleep_ms: 0, tasks: 1, bulk: 0, rate: 0 };
for (const word of words) {
  const [key, ...value] = word.split('=');
  options[key] = ['url', 'queue', 'variant'].includes(key) ? value.join('=') : Number(value[0]);
}
const address = options.url.replace(/^redis\+unix:\/\//, '');
const connection = new IORedis(address, { maxRetriesPerRequest: null });

// Microseconds since 1970.
const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const hear = (onLine) =>
  readline.createInterface({ input: process.stdin }).on('line', onLine).on('close', () => process.exit(9));

const work = () => {
  let first, done = 0;
  const waits = [];
  const report = () => {
    const line = { event: 'done', jobs: done, seconds: (now() - first) / 1e6 };
    if (options.waits !== undefined) {
      waits.sort((a, b) => a - b);
      const share = (part) => waits[Math.max(Math.ceil(waits.length * part) - 1, 0)] ?? 0;
      line.wait_us = { count: waits.length, p50: share(0.5), p90: share(0.9), p99: share(0.99), max: share(1) };
    }
    say(line);
  };
  hear((line) => {
    if (line === 'report') report();
  });
  const worker = new Worker(
    options.queue,
    async ({ data }) => {
      first ??= now();
      if (data.n >= options.waits) waits.push(now() - data.at);
      if (options.trace) say({ event: 'start', n: data.n, at: now() });
      if (options.sleep_ms) await pause(options.sleep_ms);
      if (options.trace) say({ event: 'end', n: data.n, at: now() });
      if (++done === options.jobs) report();
    },
    { connection, concurrency: options.concurrency },
  );
  worker.on('error', (error) => console.error(error));
  if (options.progress_ms) setInterval(() => say({ event: 'progress', jobs: done }), options.progress_ms);
  say({ event: 'ready' });
};

const produce = async () => {
  const queue = new Queue(options.queue, { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  const job = (n) => ({ n: options.first + n, at: now(), text: 'x'.repeat(Math.max(options.payload - 46, 0)) });
  let told = 0, next = 0, sent = 0, go;
  const started = new Promise((resolve) => (go = resolve));
  hear((line) => {
    if (line === 'go') go();
    else told = Number(line.split(' ')[1]);
  });
  say({ event: 'ready' });
  await started;
  const start = performance.now();
  const over = () => options.seconds !== undefined && performance.now() - start >= options.seconds * 1000;
  const step = Math.max(options.bulk, 1);
  const task = async (number) => {
    for (let round = 0; ; round++) {
      if (options.rate) {
        const due = ((round * options.tasks + number) / options.rate) * 1000;
        await pause(Math.max(due - (performance.now() - start), 0));
      }
      while (options.window !== undefined && next >= told + options.window && !over()) await pause(1);
      const n = next;
      if (n >= options.jobs || over()) return;
      next += step;
      const count = Math.min(step, options.jobs - n);
      if (options.bulk) {
        await queue.addBulk(Array.from({ length: count }, (_, i) => ({ name: 'run', data: job(n + i) })));
      } else {
        await queue.add('run', job(n));
      }
      sent += count;
    }
  };
  await Promise.all(Array.from({ length: options.tasks }, (_, number) => task(number)));
  say({ event: 'done', jobs: sent, seconds: (performance.now() - start) / 1000 });
};

await (role === 'work' ? work() : produce());
