// Each action that there is, as the second argument says: with the mouse, with the keyboard, or without script. What was done stands in the audit.

import { ask, go, open, run, until, violations } from './help.mjs';
import { HANDS } from './hands.mjs';

const way = process.argv[3];

await run(async (site) => {
  const hand = HANDS[way];
  const page = await open(site, { scripts: hand.scripts });
  const rows = page.locator('main tbody tr');
  const api = (path) => ask(site, page, path);
  const jobs = async (queue, state) => (await api(`/queues/${queue}/jobs?state=${state}`)).items;
  const counts = async (queue) => (await api(`/queues/${queue}`)).counts;
  /** What is asked: as a dialog of the script, else as a page. */
  const question = page.locator(hand.scripts ? 'dialog form' : 'main .question form');

  /** Opens a menu and presses a button in it. */
  const menu = async (around, label) => {
    await hand.press(page, around.locator('details.menu > summary[aria-label="More actions"]'));
    await hand.press(page, around.getByRole('button', { name: label, exact: true }));
  };

  /** Answers a question. */
  const answer = async (fill = async () => {}) => {
    await question.waitFor();
    await fill(question);
    await hand.press(page, question.locator('button[type="submit"]'));
  };

  /** An action: where, by which hand, what the note and the audit then say. */
  const act = async (path, verb, note, does, holds = async () => true) => {
    const what = `${verb} at ${path}`;
    try {
      await go(site, page, path);
      await does();
      const toast = await page.locator('.toast b').textContent();
      site.check(note.test(toast), `${what}: ${toast}`);
      // The script takes the note out of the address, once it has run.
      if (hand.scripts) await until(`${what}: the note is not in the address`, async () => !page.url().includes('done='));
      const [after, before] = (await api('/audit?limit=2')).items;
      site.same([after.action, before.action, before.result], [verb, verb, 'asked'], `${what}, in the audit`);
      await until(`${what} has come true`, holds);
    } catch (error) {
      site.wrong(`${what}: ${error.stack}`);
    }
  };

  /** Those that failed do so at once again. */
  const settled = () => until('what is retried has failed', async () => {
    const { waiting, running } = await counts('default');
    return waiting === 0 && running === 3;
  });

  const failed = '/jobs?queue=default&state=failed';
  await act(failed, 'retry', /^1 job retried$/, () => menu(rows.first(), 'Retry'));
  await settled();
  await act(failed, 'retry', /^2 jobs retried$/, async () => {
    for (const at of [0, 1]) await hand.tick(page, rows.nth(at).getByRole('checkbox'));
    await hand.press(page, page.locator('.bulk button[value="retry"]'));
    await answer();
  });
  await settled();
  await act(failed, 'retry', /^1 job retried$/, () => menu(rows.first(), 'Retry from attempt 1'));
  await settled();
  await act(failed, 'delete', /^1 job deleted$/, async () => {
    await menu(rows.first(), 'Delete');
    await answer();
  }, async () => (await counts('default')).failed === 4);

  const waiting = '/jobs?queue=idle&state=waiting';
  const last = (await jobs('idle', 'waiting')).at(-1).id;
  await act(waiting, 'promote', /^1 job put in front$/, () => menu(rows.last(), 'Run next'),
    async () => (await jobs('idle', 'waiting'))[0].id === last);
  await act(waiting, 'set priority', /^1 job given a priority$/, async () => {
    await menu(rows.first(), 'Change the priority');
    await answer((form) => hand.choose(page, form.getByLabel('Priority'), 'highest'));
  }, async () => (await jobs('idle', 'waiting')).some((job) => job.priority === 'highest'));
  await act(waiting, 'move', /^2 jobs moved$/, async () => {
    for (const at of [1, 2]) await hand.tick(page, rows.nth(at).getByRole('checkbox'));
    await hand.press(page, page.locator('.bulk button[value="move"]'));
    await answer(async (form) => {
      if (way === 'mouse') for (const one of await violations(page)) site.wrong(`the question: ${one}`);
      await hand.write(page, form.getByLabel('To the queue'), 'mail');
    });
  }, async () => (await counts('mail')).waiting === 3);
  const edited = (await jobs('idle', 'waiting'))[0].id;
  await act(`/queues/idle/jobs/${edited}`, 'edit', /^1 job changed$/, async () => {
    await hand.press(page, page.locator('main .head').getByRole('button', { name: 'Edit' }));
    await answer(async (form) => {
      const field = form.getByLabel('Arguments');
      await hand.write(page, field, (await field.inputValue()).replace(/"name": "[^"]*"/, '"name": "by hand"'));
    });
  }, async () => (await api(`/queues/idle/jobs/${edited}`)).args.name === 'by hand');
  await act(waiting, 'cancel', /^1 job cancelled$/, async () => {
    await menu(rows.first(), 'Cancel');
    await answer();
  }, async () => (await counts('idle')).cancelled === 1);
  await act(waiting, 'delete', /^3 jobs deleted$/, async () => {
    for (const at of [0, 1, 2]) await hand.tick(page, rows.nth(at).getByRole('checkbox'));
    await hand.press(page, page.locator('.bulk button[value="delete"]'));
    await answer();
  });
  await act('/scheduled?queue=idle', 'reschedule', /^1 job rescheduled$/, async () => {
    await menu(rows.first(), 'Change the time');
    await answer((form) => hand.write(page, form.getByLabel('Run'), '3h'));
  });
  const plain = rows.filter({ has: page.getByRole('link', { name: 'act', exact: true }) });
  await act('/jobs?queue=default&state=running', 'cancel', /^1 job cancelled$/, async () => {
    await menu(plain.first(), 'Cancel');
    await answer();
  }, async () => (await counts('default')).running === 2);

  await act('/broken?queue=default', 'retry', /^Put back$/, () => menu(rows.first(), 'Put back'));
  await act('/broken?queue=default', 'delete', /^Deleted$/, async () => {
    await menu(rows.first(), 'Delete');
    await answer();
  });

  const each = page.locator('[data-live="broadcasts"] tr');
  await act('/queues/idle', 'cancel', /^Cancelled$/, async () => {
    await menu(each.first(), 'Cancel');
    await answer();
  }, async () => (await api('/queues/idle/broadcasts')).items.length === 0);

  const head = page.locator('main .head');
  await act('/queues/idle', 'pause', /^Paused$/, async () => {
    await hand.press(page, head.getByRole('button', { name: 'Pause' }));
    await answer((form) => hand.choose(page, form.getByLabel('For'), '15m'));
  }, async () => (await api('/queues/idle')).paused?.until > 0);
  await act('/queues/idle', 'resume', /^Resumed$/, () => hand.press(page, head.getByRole('button', { name: 'Resume' })),
    async () => (await api('/queues/idle')).paused === null);
  await act('/queues/idle', 'clear', /^\d jobs deleted$/, async () => {
    await menu(head, 'Clear waiting');
    await answer();
  }, async () => (await counts('idle')).waiting === 0);
  await act('/queues/old', 'destroy', /^Destroyed: /, async () => {
    await menu(head, 'Destroy');
    await answer((form) => hand.write(page, form.getByLabel(/to confirm/), 'old'));
  });

  await act('/queues/default/cron/nightly', 'run', /^Enqueued$/, () => hand.press(page, head.getByRole('button', { name: 'Run now' })));
  await act('/queues/default/cron/nightly', 'pause', /^Paused$/, () => hand.press(page, head.getByRole('button', { name: 'Pause' })));
  await act('/cron', 'resume', /^Resumed$/, () => menu(rows.filter({ hasText: 'nightly' }), 'Resume'));
  await act('/queues/default/cron/nightly', 'delete', /^Removed$/, async () => {
    await hand.press(page, head.getByRole('button', { name: 'Remove' }));
    await answer();
  }, async () => (await api('/queues/default/cron')).items.length === 0);

  // Row RL10: how much of a limit there is and is used, who holds a key, and that it is as code says again.
  const limit = rows.filter({ hasText: 'act_by_twos' });
  const says = () => limit.locator('.load').innerText();
  await act('/limits?queue=default', 'set limit', /^Set$/, async () => {
    await menu(limit, 'Change');
    await answer((form) => hand.write(page, form.getByLabel('At once'), '7'));
  });
  site.same((await says()).replace(/\s/g, ''), '0/7', 'the limit as it was set');
  await act('/limits?queue=default', 'pause', /^Paused$/, () => menu(limit, 'Pause'));
  site.check((await limit.innerText()).includes('paused'), 'the limit is shown as paused');
  await act('/limits?queue=default', 'resume', /^Resumed$/, () => menu(limit, 'Resume'));
  await act('/limits?queue=default', 'unset limit', /^Taken back$/, async () => {
    await menu(limit, 'Take back');
    await answer();
  });
  site.same((await says()).replace(/\s/g, ''), '0/2', 'the limit as code says');
  await act('/limits?queue=default', 'set limit', /^Set$/, async () => {
    await hand.write(page, page.getByLabel('Name', { exact: false }), '*');
    await hand.press(page, page.getByRole('button', { name: 'Set', exact: true }));
    await answer((form) => hand.write(page, form.getByLabel('Rate'), '100/m'));
  });
  await act('/limits?queue=default', 'free', /^Freed$/, async () => {
    await menu(rows.filter({ hasText: 'k1' }), 'Free');
    await answer();
  }, async () => (await api('/queues/default/locks')).items.length === 0);

  // A form that is filled in wrongly comes again with what is wrong, and what was right in it.
  const streams = [];
  page.on('request', (request) => request.url().endsWith('/events') && streams.push(new URL(page.url()).pathname));
  await act('/types/act', 'enqueue', /^Enqueued$/, async () => {
    const form = page.locator('main form');
    page.allowed = /422/;
    await hand.write(page, form.getByLabel('name'), 'from a form');
    await hand.write(page, form.getByLabel('plan'), 'no list');
    await hand.press(page, form.getByRole('button', { name: /^Enqueue on/ }));
    await page.getByRole('alert').waitFor();
    page.allowed = null;
    site.same(await form.getByLabel('name').inputValue(), 'from a form', 'what was right in the form');
    await hand.write(page, form.getByLabel('plan'), '[[]]');
    await hand.press(page, form.getByRole('button', { name: /^Enqueue on/ }));
    await page.waitForURL('**/queues/default/jobs/**');
  });

  site.check(!streams.includes('/act'), 'what a form has come to is not asked for again');

  await act('/workers', 'quiet', /^1 worker told/, () => menu(rows.first(), 'Quiet'), async () => (await api('/workers')).items[0].quiet);
  await act('/workers', 'resume', /^1 worker told/, () => menu(rows.first(), 'Resume'), async () => !(await api('/workers')).items[0].quiet);
  await act('/workers', 'stop', /^1 worker told/, async () => {
    await menu(rows.first(), 'Stop');
    await answer((form) => hand.write(page, form.getByLabel('Grace'), '1s'));
  }, async () => (await api('/workers')).items.every((one) => one.stopping));

  // What only looks: by its id, by a filter, by a tab, by a choice.
  const some = (await jobs('default', 'failed'))[0].id;
  await go(site, page, '');
  await hand.press(page, page.getByLabel('Find a job by its id'));
  const find = page.locator(hand.scripts ? 'dialog form' : 'main .question form');
  await hand.write(page, find.getByLabel('Its id'), some);
  await hand.press(page, find.getByRole('button', { name: 'Find' }));
  await page.waitForURL(`**/queues/default/jobs/${some}`);
  await go(site, page, failed);
  await hand.write(page, page.getByLabel('Filter', { exact: true }), 'error:panic job:act_once');
  await hand.press(page, page.locator('form.filter').getByRole('button', { name: 'Filter', exact: true }));
  await page.locator('.chip').nth(1).waitFor();
  await hand.press(page, page.getByLabel('Remove error'));
  await until('one condition is left', async () => (await page.locator('.chip').count()) === 1);
  await hand.press(page, page.locator('nav.tabs a', { hasText: 'Waiting' }));
  await page.waitForURL('**state=waiting**');
  await hand.press(page, page.locator('details.menu > summary', { hasText: 'Usual order' }));
  await hand.press(page, page.getByRole('link', { name: 'Newest first' }));
  await page.waitForURL('**order=newest**');
  await hand.press(page, page.locator('form.filter details.menu > summary', { hasText: 'default' }));
  await hand.press(page, page.locator('form.filter').getByRole('link', { name: 'mail' }));
  await page.waitForURL('**queue=mail**');
  await go(site, page, '/charts');
  await hand.press(page, page.getByRole('link', { name: '24 h' }));
  await page.waitForURL('**w=24h**');
  await hand.press(page, page.locator('details.data > summary').first());
  await page.locator('details.data table').first().waitFor();
  // On a telephone the list of pages is behind a button.
  await page.setViewportSize({ width: 360, height: 800 });
  await go(site, page, '');
  await hand.press(page, page.getByRole('button', { name: 'Pages' }));
  await hand.press(page, page.locator('#nav').getByRole('link', { name: 'Workers' }));
  await page.waitForURL('**/workers');
});
