// Charts: an outage is a gap at its place with no spike behind it, and where the clocks change the labels alone follow the reader's zone.
// The second argument is the minute up to which the test has written what was done, in ms: ten done and two failed a minute from 55 to 5 minutes ago, but for
// those from 40 to 20 minutes ago.

import { go, open, run } from './help.mjs';

const MINUTE = 60_000;
const until = Number(process.argv[3]);

/** How high the points of a line are, from 0 to 100, and the bars by their place. */
const line = (path) => [...path.matchAll(/[\d.]+ ([\d.]+)/g)].map(([, y]) => Math.round(100 - Number(y)));
const bars = (path) => new Map([...path.matchAll(/M(\d+)\.15 100v-([\d.]+)/g)].map(([, x, height]) => [Number(x), Math.round(Number(height))]));

async function outage(site) {
  const page = await open(site);
  await go(site, page, '/queues/default');
  const chart = page.locator('[data-live="chart-done"]');
  const heights = line(await chart.locator('path.edge').getAttribute('d'));
  site.same(heights.length, 60, 'points in an hour');
  // Where a point stands in time is in the table, of which the last row is the last point.
  const end = Number(await chart.locator('tbody th').last().getAttribute('data-at'));
  const high = 100 * 10 / Number(await chart.locator('svg.plot > text').first().textContent());
  const wanted = heights.map((_, at) => {
    const ago = (until - end) / MINUTE + heights.length - 1 - at;
    return ago >= 5 && ago < 55 && !(ago >= 20 && ago < 40) ? high : 0;
  });
  site.same(heights, wanted, 'the line of what was done');
  await go(site, page, '/failed?queue=default');
  const failed = bars(await page.locator('[data-live="chart-failed"] path.bars').getAttribute('d'));
  site.same([...failed.keys()], wanted.flatMap((height, at) => (height > 0 ? [at] : [])), 'the bars of what failed');
  site.same(new Set(failed.values()).size, 1, 'all bars are as high');
}

/** Zones, each with an instant at which its clocks change: by an hour on and back, by half an hour, in the south, and one where they never do. */
const CHANGES = [
  ['Europe/Berlin', '2026-03-29T01:00:00Z'],
  ['Europe/Berlin', '2026-10-25T01:00:00Z'],
  ['America/New_York', '2026-11-01T06:00:00Z'],
  ['Australia/Lord_Howe', '2026-04-04T15:00:00Z'],
  ['Asia/Kathmandu', '2026-03-29T01:00:00Z'],
];

async function clocks(site) {
  let drawn = null;
  for (const [timezoneId, change] of CHANGES) {
    const page = await open(site, { timezoneId });
    // The page as it would be had the change been in the middle of it.
    const middle = until - 12 * 60 * MINUTE;
    const by = Date.parse(change) - (middle - (middle % (10 * MINUTE)));
    await page.route('**/queues/default?w=24h', async (route) => {
      const answer = await route.fetch();
      const body = (await answer.text()).replace(/data-at="(\d+)"/g, (_, at) => `data-at="${Number(at) + by}"`);
      await route.fulfill({ response: answer, body });
    });
    await go(site, page, '/queues/default?w=24h');
    const what = `${timezoneId} at ${change}`;
    const chart = page.locator('[data-live="chart-waiting"]');
    const clock = new Intl.DateTimeFormat('en-GB', { timeZone: timezoneId, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
    const labels = await chart.locator('[data-at]').evaluateAll((all) => all.map((one) => [Number(one.dataset.at), one.textContent]));
    // One that would stand over the edge is left out.
    site.check(labels.length >= 3 + 12, `${what}: ${labels.length} labels`);
    site.same(labels.map(([, text]) => text), labels.map(([at]) => clock.format(at)), `${what}: labels`);
    const places = await chart.locator('svg.plot > text[data-at]').evaluateAll((all) => all.map((one) => parseFloat(one.getAttribute('x'))));
    const steps = new Set(places.slice(1).map((place, at) => Math.round(place - places[at])));
    site.same(steps.size, 1, `${what}: labels stand apart as far`);
    // By how much the clock is off from UTC: two values where it changes, else one.
    const offsets = new Set(labels.map(([at, text]) => {
      const [hours, minutes] = text.split(':').map(Number);
      return (((hours * 60 + minutes) * MINUTE - (at % 86_400_000)) / MINUTE + 2_880) % 1_440;
    }));
    site.same(offsets.size, timezoneId === 'Asia/Kathmandu' ? 1 : 2, `${what}: offsets of the clock`);
    const paths = await page.locator('svg.plot path').evaluateAll((all) => all.map((one) => one.getAttribute('d')));
    drawn ??= paths;
    site.same(paths, drawn, `${what}: what is drawn`);
    // A live look may be under way.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.context().close();
  }
}

await run(async (site) => {
  await outage(site);
  await clocks(site);
});
