// A tab with a search and live numbers, and another one, are closed; the browser goes on until its input ends.

import { go, open, run } from './help.mjs';

await run(async (site) => {
  const [searching, other] = [await open(site), await open(site)];
  const streams = [searching, other].map((page) => page.waitForResponse('**/api/v1/events'));
  await go(site, searching, '/jobs?queue=default&state=waiting&filter=args~nothing');
  await go(site, other, '');
  for (const stream of streams) site.check((await stream).ok(), 'there is a stream');
  // What it asks for by itself, when the first number comes.
  await searching.waitForResponse((answer) => answer.url().includes('filter='));
  await searching.close();
  await other.close();
  console.log('closed');
  for await (const _ of process.stdin);
});
