// Every page with hostile texts in every field, narrow and dark, wide and light: nothing of them runs, nothing goes wrong, axe-core finds
// nothing, and nothing is too wide. A viewer has no action and sees no argument.

import { everyPage, go, open, run, violations } from './help.mjs';

/** Where nothing but the look differs, these rules are asked a second time. */
const LOOKS = ['color-contrast', 'scrollable-region-focusable', 'aria-hidden-focus'];

/** The fields that have to be seen with the hostile text on some page; what is no queue's name is on none. */
const FIELDS = [
  'id', 'job', 'argument', 'value', 'tag', 'meta', 'noted', 'message', 'place', 'backtrace', 'payload', 'reason', 'kind', 'held', 'label', 'host', 'version',
  'type', 'alias', 'source', 'property', 'format', 'choice', 'audit-who', 'audit-action', 'audit-what', 'audit-result', 'entry',
  'limit', 'key', 'broadcast', 'each',
];

/** What of a hostile text has got into the page as more than text. */
function taken() {
  const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;
  const found = [];
  if ('hostile' in globalThis) found.push('a script ran');
  if (document.scripts.length !== 1) found.push(`${document.scripts.length} scripts`);
  for (const element of document.querySelectorAll('*')) {
    const { localName, attributes } = element;
    if (['img', 'iframe', 'object', 'embed', 'base', 'template'].includes(localName)) found.push(localName);
    for (const { name, value } of attributes) {
      if (name.startsWith('on') || name === 'style') found.push(`${localName} ${name}`);
      if (/^\s*javascript:/i.test(value)) found.push(`${name} ${value}`);
      // A form sends a name as it is.
      if (hidden.test(value) && !['input', 'button', 'option'].includes(localName)) found.push(`a hidden character in ${localName} ${name}`);
    }
  }
  if (hidden.test(document.body.innerText)) found.push('a hidden character');
  return found;
}

async function asAdmin(site, page, paths, seen) {
  for (const path of paths) {
    await go(site, page, path);
    for (const [width, colorScheme, rules] of [[360, 'dark', null], [1280, 'light', LOOKS]]) {
      const what = `${path || '/'} at ${width} px, ${colorScheme}`;
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      site.check(over <= 0, `${what}: ${over} px too wide`);
      for (const violation of await violations(page, rules)) site.wrong(`${what}: ${violation}`);
    }
    for (const one of await page.evaluate(taken)) site.wrong(`${path}: ${one}`);
    const text = await page.evaluate(() => document.documentElement.outerHTML);
    for (const [, field] of text.matchAll(/([\w-]+)\.of\.the\.enemy/g)) seen.add(field);
  }
}

async function asViewer(site, page, paths) {
  for (const path of paths) {
    await go(site, page, path);
    const actions = await page.locator('form[method="post"] [type="submit"]').count();
    site.check(actions === 0, `${path}: a viewer has ${actions} actions`);
    site.check(!(await page.content()).includes('value.of.the.enemy'), `${path}: a viewer sees an argument`);
  }
}

await run(async (site) => {
  const [one, other] = [await open(site), await open(site)];
  const paths = await everyPage(site, one);
  // What is asked for by hand comes into the page too.
  const evil = encodeURIComponent('"><script>hostile=1</script>\u202e');
  paths.push(`/jobs?queue=default&filter=${evil}`, `/?done=${evil}`, `/failed?queue=default&done=retry.1.2.3.${evil}`);
  const seen = new Set();
  // Two at a time: a page waits for the server, and the other one for the browser.
  const ofViewer = asViewer(site, await open(site, { user: 'viewer' }), paths);
  const half = Math.ceil(paths.length / 2);
  await Promise.all([asAdmin(site, one, paths.slice(0, half), seen), asAdmin(site, other, paths.slice(half), seen), ofViewer]);
  for (const field of FIELDS) site.check(seen.has(field), `the hostile text of \`${field}\` is on no page`);

  // What is not there, and what cannot be read, is told as text too.
  one.allowed = /40[04]|422/;
  const wrong = ['/find?id=', '/queues/default/jobs/', '/types/', '/workers/', '/', '/jobs?state=', '/queues/', '/queues/default/cron/'];
  for (const path of wrong.map((begin) => begin + evil)) {
    await one.goto(site.base + path);
    for (const what of await one.evaluate(taken)) site.wrong(`${path}: ${what}`);
    for (const violation of await violations(one, LOOKS)) site.wrong(`${path}: ${violation}`);
  }
});
