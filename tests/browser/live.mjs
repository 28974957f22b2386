// A hundred live updates take nothing from the hand: a focus, a selection, an open menu, a text half written, a dialog, a marked text.

import { ask, go, open, run, until } from './help.mjs';

const UPDATES = 100;

/** A page whose streams tell of changes all the time: each is a few ticks, and the browser comes again after 5 ms. */
async function busy(site) {
  const page = await open(site);
  page.ticks = 0;
  await page.route('**/api/v1/events', (route) => {
    const ticks = [1, 2, 3, 4].map((one) => `event: tick\ndata: {"queues":[${page.ticks + one}]}\n\n`);
    page.ticks += ticks.length;
    return route.fulfill({ contentType: 'text/event-stream', body: `retry: 5\n${ticks.join('')}` });
  });
  return page;
}

async function updates(page, count = UPDATES) {
  const end = page.ticks + count;
  await until(`${count} updates`, () => page.ticks >= end);
}

await run(async (site) => {
  const page = await busy(site);
  const rows = page.locator('main tbody tr');
  const enqueue = async (name) => {
    const data = { job: 'act', args: { name, plan: [] }, unchecked: true };
    const headers = { 'sec-fetch-site': 'same-origin' };
    const answer = await page.context().request.post(`${site.base}/api/v1/queues/idle/jobs`, { data, headers });
    if (!answer.ok()) throw new Error(`${answer.status()} ${await answer.text()}`);
  };
  const tab = page.locator('nav.tabs a', { hasText: 'Waiting' }).locator('span');
  const waits = async () => Number(await tab.textContent());
  /** What was there before a hundred updates, and a change among them, is there after. */
  const stays = async (what, look, isHeld = false) => {
    const [before, number] = [await look(), await waits()];
    site.check(before, `${what}: it was there`);
    await enqueue(what);
    await updates(page);
    site.same(await look(), before, `${what}, after the updates`);
    if (isHeld) site.same(await waits(), number, `${what}: the page is held`);
    else await until(`${what}: the rest of the page goes on`, async () => (await waits()) > number);
  };
  const waiting = '/jobs?queue=idle&state=waiting';

  // The focus on a row, by the keys of the page.
  await go(site, page, waiting);
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await stays('focus', () => page.evaluate(() => document.activeElement.closest('tr')?.rowIndex + document.activeElement.href));
  const second = await rows.nth(1).locator('a.name').getAttribute('href');
  site.check((await page.evaluate(() => document.activeElement.href)).endsWith(second), 'the focus is on the second row');

  // A selection by the key, more of it, and that it is let go.
  await page.keyboard.press('x');
  const chosen = () => page.locator('tbody :checked').evaluateAll((boxes) => boxes.map((box) => box.value).join());
  await stays('selection', chosen, true);
  site.same(await page.locator('#live span').textContent(), 'Held: 1 selected', 'what the page says of it');
  await rows.nth(3).getByRole('checkbox').click({ modifiers: ['Shift'] });
  site.same(await page.locator('[data-chosen]').first().textContent(), '3 selected', 'from one to the other with Shift');
  await page.getByLabel('Select all on this page').click();
  site.same((await chosen()).split(',').length, await rows.count(), 'all on the page');
  const held = await waits();
  await page.getByLabel('Clear the selection').click();
  await until('the page goes on without a selection', async () => (await waits()) > held);

  // An open menu, from which the action is then taken.
  await go(site, page, waiting);
  const menu = rows.first().locator('details.menu');
  await menu.locator('summary').click();
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.activeElement.blur());
  await stays('menu', () => page.evaluate(() => document.querySelector('tbody details[open]')?.closest('tr').innerHTML));
  await menu.getByRole('button', { name: 'Cancel' }).click();

  // A dialog with a text half written, beside which nothing is fetched; closed by Escape, it is gone.
  await page.locator('dialog').waitFor();
  await stays('dialog', () => page.locator('dialog').innerText(), true);
  await page.keyboard.press('Escape');
  await until('the dialog is closed', async () => (await page.locator('dialog').count()) === 0);

  // A text half written in the filter, and a text that is marked.
  await go(site, page, waiting);
  await page.getByLabel('Filter', { exact: true }).pressSequentially('job:a');
  await stays('text', () => page.getByLabel('Filter', { exact: true }).inputValue());
  await page.evaluate(() => {
    document.activeElement.blur();
    getSelection().selectAllChildren(document.querySelector('tbody a.name'));
  });
  await stays('marked', () => page.evaluate(() => getSelection().toString()));

  // What is unfolded stays so though its part is written anew, and what is folded too.
  const { items } = await ask(site, page, '/queues/default/jobs?state=failed');
  await go(site, page, `/queues/default/jobs/${items.find((job) => job.job === 'act_once').id}`);
  const attempt = page.locator('details.try');
  await attempt.locator('> summary').click();
  await page.evaluate(() => document.activeElement.blur());
  await updates(page, 20);
  site.same(await attempt.evaluate((one) => one.open), false, 'a folded attempt');

  // What is copied is what stands there.
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const copy = page.locator('[data-copy="command"]');
  await copy.click();
  await until('it says that it was copied', async () => (await copy.innerText()).includes('Copied'));
  const command = await page.locator('#command').textContent();
  site.same(await page.evaluate(() => navigator.clipboard.readText()), command.trim(), 'what was copied');

  // The keys: the list of them, and the search.
  await page.keyboard.press('?');
  await page.locator('#keys:popover-open').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  await page.locator('dialog input').waitFor();
  site.check(await page.evaluate(() => document.activeElement.id === 'id'), 'the focus is in the search');
  await page.keyboard.type('j');
  site.same(await page.locator('dialog input').inputValue(), 'j', 'a key in a field is a letter');
  await page.keyboard.press('Escape');

  // Dark or light, which the next page knows too.
  const scheme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.locator('#theme').click();
  site.same(await scheme(), 'dark', 'the other look');
  await go(site, page, '/queues');
  site.same(await scheme(), 'dark', 'the look of the next page');
});
