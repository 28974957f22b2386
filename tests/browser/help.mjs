// What the tests of the page in a browser share.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

/** Long enough on a busy machine. */
export const SOON = 20_000;

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Runs a group of checks at the address that the first argument names; the process fails with all that was found. */
export async function run(checks) {
  const base = process.argv[2].replace(/\/$/, '');
  const found = [];
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // Chromium has no sandbox for root, and this reads only pages of the test.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  const site = {
    base,
    browser,
    wrong: (what) => found.push(what),
    check: (holds, what) => holds || found.push(what),
    same(is, wanted, what) {
      const [one, other] = [JSON.stringify(is), JSON.stringify(wanted)];
      if (one !== other) found.push(`${what}: ${one}, not ${other}`);
    },
  };
  try {
    await checks(site);
  } catch (error) {
    found.push(error.stack);
  }
  await browser.close();
  for (const one of found) console.error(`- ${one}`);
  process.exit(found.length > 0 ? 1 : 0);
}

/** A page of a browser in which nothing may go wrong: no error, no message of an error, nothing that the policy of the page forbids. */
export async function open(site, options = {}) {
  const { user = 'admin', scripts = true, ...rest } = options;
  const context = await site.browser.newContext({
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
    extraHTTPHeaders: { 'x-user': user },
    javaScriptEnabled: scripts,
    ...rest,
  });
  context.setDefaultTimeout(SOON);
  if (scripts) {
    // It tells of what the policy forbids, and runs apart from it.
    await context.addInitScript(() => {
      addEventListener('securitypolicyviolation', (event) => {
        console.error(`forbidden by the policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
  }
  const page = await context.newPage();
  page.on('pageerror', (error) => site.wrong(`${page.url()}: ${error}`));
  page.on('dialog', (dialog) => {
    site.wrong(`${page.url()}: a dialog of a script: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('console', (message) => {
    const isStatus = message.text().startsWith('Failed to load resource') && page.allowed?.test(message.text());
    if (message.type() === 'error' && !isStatus) site.wrong(`${page.url()}: ${message.text()}`);
  });
  return page;
}

/** Goes to a page, which must be there. */
export async function go(site, page, path) {
  const answer = await page.goto(site.base + path, { waitUntil: 'domcontentloaded' });
  site.check(answer.ok(), `${path}: ${answer.status()}`);
  return answer;
}

/** What the REST API says. */
export async function ask(site, page, path) {
  const answer = await page.context().request.get(`${site.base}/api/v1${path}`);
  if (!answer.ok()) throw new Error(`${path}: ${answer.status()} ${await answer.text()}`);
  return answer.json();
}

/** Waits until a condition holds. */
export async function until(what, holds) {
  const end = Date.now() + SOON;
  for (;;) {
    const is = await holds();
    if (is) return is;
    if (Date.now() > end) throw new Error(`not within ${SOON / 1000} s: ${what}`);
    await new Promise((go) => setTimeout(go, 20));
  }
}

/** The paths of every page, with those of single things as the API and the pages name them. */
export async function everyPage(site, page) {
  const paths = [
    '', '/queues', '/queues/default', '/queues/idle', '/queues/evil', '/failed', '/workers', '/broken', '/scheduled?queue=idle', '/cron',
    '/limits', '/limits?queue=default', '/limits?queue=evil', '/charts', '/charts?w=24h', '/types', '/audit', '/crashes', '/server', '/find',
  ];
  const known = new Set();
  for (const name of ['evil', 'default', 'idle']) {
    const { counts } = await ask(site, page, `/queues/${name}`);
    const states = Object.keys(counts).filter((state) => counts[state] > 0 && !known.has(state));
    for (const state of states) {
      known.add(state);
      paths.push(`/jobs?queue=${name}&state=${state}`);
      const listed = (await ask(site, page, `/queues/${name}/jobs?state=${state}`)).items;
      const id = listed.find((job) => job.id && !job.digest)?.id;
      if (id) paths.push(`/queues/${name}/jobs/${encodeURIComponent(id)}`);
    }
  }
  for (const list of ['/workers', '/broken?queue=default', '/broken?queue=evil', '/cron', '/types', '/failed']) {
    await page.goto(site.base + list);
    const links = await page.locator('main [data-href]').evaluateAll((rows) => rows.map((row) => row.dataset.href));
    const mount = new URL(site.base).pathname.replace(/\/$/, '');
    // Those by which others do harm, and one more; a name that is none has no page.
    links.sort((one, other) => other.includes('enemy') - one.includes('enemy'));
    paths.push(...links.filter((link) => !link.includes('no-entry')).slice(0, 2).map((link) => link.slice(mount.length)));
  }
  return [...new Set(paths)];
}

/** What axe-core says against a page, by all rules or by these. */
export async function violations(page, rules = null) {
  if (!(await page.evaluate(() => 'axe' in globalThis))) {
    // Past the policy of the page, which forbids such scripts.
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Runtime.evaluate', { expression: axe });
    await devtools.detach();
  }
  return page.evaluate(async (runOnly) => {
    const { violations } = await axe.run({ resultTypes: ['violations'], ...(runOnly && { runOnly }) });
    const told = (node) => `${node.target.join(' ')}: ${[...node.any, ...node.all, ...node.none][0]?.message}`;
    return violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map(told).join('; ')}`);
  }, rules);
}
