// The page works without this. It adds: numbers that change by themselves, questions as dialogs, times of the reader's own zone, keys.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const base = document.body.dataset.base;

/* Looks: dark or light. */

const THEME = 'hworker-theme';

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}

function switchTheme() {
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  const now = document.documentElement.dataset.theme ?? (isDark ? 'dark' : 'light');
  const theme = now === 'dark' ? 'light' : 'dark';
  setTheme(theme);
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // It holds for this page.
  }
}

try {
  setTheme(localStorage.getItem(THEME));
} catch {
  // A browser may keep nothing.
}

/* Times of the reader's zone. */

const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
// 24 hours, so that a label fits below its mark.
const hourCycle = 'h23';
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hourCycle });
const exact = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle,
});
const minute = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

function localize(root) {
  for (const time of all('time[datetime]', root)) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    time.title = whole.format(at);
    if ('clock' in time.dataset) time.textContent = (time.textContent.includes('.') ? exact : clock).format(at);
  }
  for (const label of all('[data-at]', root)) {
    const at = new Date(Number(label.dataset.at));
    if (!isNaN(at)) label.textContent = (label.textContent.includes(':') ? minute : day).format(at);
  }
}

/* What needs a script is hidden without. */

function reveal(root) {
  for (const element of all('[data-script], [data-all]', root)) element.hidden = false;
}

/* Live: what changed is fetched anew, unless somebody is at it. */

const EVERY = 2000;
const SILENT = 7 * EVERY;
const AT_LEAST = 5 * EVERY;
const live = document.getElementById('live');
let stream = null;
let watch = 0;
let isFetching = false;
let fetched = Date.now();
// What a form has come to is nothing that can be fetched anew.
let isGone = location.pathname === `${base}/act`;
let seen = '';

function tell(word, isOn) {
  if (!live) return;
  live.classList.toggle('off', !isOn);
  const label = live.querySelector('span');
  if (label) label.textContent = word;
}

/** Whether somebody is at something in there, which must not change under the hand. */
function isInUse(element) {
  const focus = document.activeElement;
  const isFocused = focus && focus !== document.body && element.contains(focus) && !focus.matches('nav a');
  const isOpen = element.matches('[popover]') && element.matches(':popover-open');
  return isFocused || isOpen || element.querySelector('details[open]:not(.try):not(.fold), dialog[open]') || selects(element);
}

function selects(element) {
  const selection = getSelection();
  const isText = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
  return isText || element.querySelector('tbody :checked') !== null;
}

function chosen() {
  return all('form[data-bulk] tbody :checked').length;
}

async function refresh() {
  if (isFetching || document.querySelector('dialog[open]')) return;
  if (chosen() > 0) {
    tell(`Held: ${chosen()} selected`, false);
    return;
  }
  isFetching = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (answer.status === 404) {
      // What this page shows is no more: to look for it again would have the whole queue read.
      isGone = true;
      stop();
      tell('Gone', false);
      return;
    }
    fetched = Date.now();
    if (!answer.ok) throw new Error(answer.statusText);
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const element of all('[data-live]')) {
      const other = next.querySelector(`[data-live="${CSS.escape(element.dataset.live)}"]`);
      if (!other || other.isEqualNode(element) || isInUse(element)) continue;
      replace(element, other);
    }
    tell('Live', true);
  } catch {
    tell('Not reached since', false);
  } finally {
    isFetching = false;
  }
}

function replace(element, other) {
  const isOpen = (details) => details.open;
  const open = all('details', element).map(isOpen);
  const fresh = document.importNode(other, true);
  // What was unfolded stays so.
  all('details', fresh).forEach((details, at) => {
    if (at in open && !details.matches('.menu')) details.open = open[at];
  });
  localize(fresh);
  reveal(fresh);
  if (element.id === 'live') element.replaceChildren(...fresh.childNodes);
  else element.replaceWith(fresh);
}

function ticked(event) {
  watchOver();
  let queues = '';
  try {
    queues = JSON.stringify(JSON.parse(event.data).queues);
  } catch {
    // Then something has changed.
  }
  const isOld = Date.now() - fetched >= AT_LEAST;
  if (queues !== seen || isOld) refresh();
  seen = queues;
}

/** After two intervals without a word the page asks by itself. */
function watchOver() {
  clearTimeout(watch);
  watch = setTimeout(() => {
    refresh();
    if (!isGone) watchOver();
  }, SILENT);
}

function stop() {
  stream?.close();
  stream = null;
  clearTimeout(watch);
}

function listen() {
  if (isGone) return;
  if (document.visibilityState !== 'visible') {
    stop();
    return;
  }
  if (stream) return;
  watchOver();
  stream = new EventSource(`${base}/api/v1/events`);
  stream.addEventListener('tick', ticked);
  stream.addEventListener('resync', refresh);
  stream.addEventListener('error', () => {
    // A browser tries again by itself, unless it was refused.
    if (stream?.readyState === EventSource.CLOSED) tell('Every 14 s', true);
  });
}

/* Questions: the page with the question, as a dialog. */

async function ask(request) {
  let answer;
  try {
    answer = await fetch(request);
  } catch {
    say('The answer was lost', 'It is not known whether it was done: look before you try again.');
    return;
  }
  if (answer.redirected) {
    location.assign(answer.url);
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const form = page.querySelector('.question form');
  if (form) {
    show(form);
    return;
  }
  const told = page.querySelector('main .none');
  say(told?.querySelector('h1')?.textContent ?? 'Not done', told?.querySelector('p')?.textContent ?? '');
}

function say(title, text) {
  const box = document.createElement('div');
  const head = document.createElement('h2');
  const words = document.createElement('p');
  const foot = document.createElement('footer');
  const close = document.createElement('button');
  head.textContent = title;
  words.textContent = text;
  close.className = 'btn';
  close.type = 'button';
  close.dataset.close = '';
  close.textContent = 'Close';
  foot.append(close);
  box.append(head, words, foot);
  show(box);
}

function show(content) {
  const dialog = document.createElement('dialog');
  const inside = document.importNode(content, true);
  dialog.setAttribute('closedby', 'any');
  dialog.setAttribute('aria-label', inside.querySelector('h1, h2')?.textContent ?? '');
  dialog.append(inside);
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  localize(dialog);
  dialog.showModal();
  // On Cancel, where it cannot be undone.
  const first = dialog.querySelector('a[autofocus]');
  (first ?? dialog.querySelector('input:not([type="hidden"]), textarea, select, [autofocus]'))?.focus();
}

function submitted(event) {
  const form = event.target;
  if (!form.matches('form[data-ask]') || form.closest('dialog')) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  // A field of the form is called `action` too.
  ask(new Request(form.getAttribute('action'), { method: 'POST', body, headers: { accept: 'text/html' } }));
}

/* The mouse. */

let last = null;

function clicked(event) {
  const target = event.target.closest('a, button, input, summary');
  for (const menu of all('details.menu[open]')) if (!menu.contains(event.target)) menu.open = false;
  if (!target) return;
  if (target.matches('#theme')) switchTheme();
  if (target.matches('.toast > a')) {
    event.preventDefault();
    target.closest('.toasts').remove();
  }
  if (target.matches('[data-close]') && target.closest('dialog')) {
    event.preventDefault();
    target.closest('dialog').close();
  }
  const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
  if (target.matches('a[data-ask]') && isPlain) {
    event.preventDefault();
    ask(new Request(target.href, { headers: { accept: 'text/html' } }));
  }
  if (target.matches('[data-copy]')) copy(target);
  if (target.matches('tbody [type="checkbox"]')) choose(target, event.shiftKey);
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy)?.textContent ?? '';
  const label = button.lastChild;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(text.trim());
    label.textContent = 'Copied';
  } catch {
    label.textContent = 'Not allowed';
  }
  setTimeout(() => (label.textContent = before), 1500);
}

/* What is chosen. */

function boxes() {
  return all('form[data-bulk] tbody [type="checkbox"]');
}

function choose(box, isRange) {
  const list = boxes();
  const from = list.indexOf(last);
  const to = list.indexOf(box);
  if (isRange && from >= 0 && to >= 0) {
    for (const one of list.slice(Math.min(from, to), Math.max(from, to) + 1)) one.checked = box.checked;
  }
  last = box;
  count();
}

function count() {
  const [number, total] = [chosen(), boxes().length];
  for (const label of all('[data-chosen]')) label.textContent = `${number} selected`;
  for (const box of all('[data-all]')) {
    box.checked = number > 0 && number === total;
    box.indeterminate = number > 0 && number < total;
  }
}

function changed(event) {
  if (!event.target.matches('[data-all]')) return;
  for (const box of boxes()) box.checked = event.target.checked;
  count();
}

/* Keys. */

function rows() {
  return all('tr[data-href] a.name, li[data-href] a.msg').filter((link) => link.closest('main'));
}

function move(by) {
  const list = rows();
  const row = document.activeElement?.closest('[data-href]');
  const now = list.findIndex((link) => row?.contains(link));
  const next = list[now < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(now + by, 0), list.length - 1)];
  next?.focus();
}

const KEYS = {
  '/': () => document.querySelector('a[data-ask][href$="/find"]')?.click(),
  '?': () => document.getElementById('keys')?.togglePopover(),
  j: () => move(1),
  k: () => move(-1),
  x: () => document.activeElement?.closest('tr')?.querySelector('[type="checkbox"]')?.click(),
};

function pressed(event) {
  const isTyping = event.target.closest('input:not([type="checkbox"]), textarea, select, dialog');
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  const does = KEYS[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

/* At the begin. */

const here = new URL(location.href);
if (here.searchParams.has('done')) {
  // A note is told once.
  here.searchParams.delete('done');
  history.replaceState(null, '', here);
}
localize(document);
reveal(document);
count();
document.addEventListener('submit', submitted);
document.addEventListener('click', clicked);
document.addEventListener('change', changed);
document.addEventListener('reset', () => setTimeout(count));
document.addEventListener('keydown', pressed);
document.addEventListener('visibilitychange', listen);
addEventListener('pagehide', () => stream?.close());
if (live) listen();
