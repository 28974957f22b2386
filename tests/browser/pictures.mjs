// Writes pictures of the main pages for the documents: node pictures.mjs URL FOLDER

import { mkdir, writeFile } from 'node:fs/promises';
import { ask, go, open, run } from './help.mjs';

/** None is larger, in bytes. */
const MOST = 120 * 1024;

/** A picture as sharp as it may be. */
async function picture(site, path, colorScheme) {
  for (let deviceScaleFactor = 1; deviceScaleFactor > 0.4; deviceScaleFactor -= 0.1) {
    const page = await open(site, { colorScheme, deviceScaleFactor });
    await go(site, page, path);
    const bytes = await page.screenshot({ scale: 'device' });
    await page.context().close();
    if (bytes.length < MOST) return bytes;
  }
  throw new Error(`${path} has too much in it for a picture`);
}

await run(async (site) => {
  const folder = process.argv[3];
  await mkdir(folder, { recursive: true });
  const page = await open(site);
  const queues = (await ask(site, page, '/queues')).items;
  const most = (of) => queues.reduce((one, other) => (of(other.counts) > of(one.counts) ? other : one)).name;
  const [busy, failing] = [most((counts) => counts.running), most((counts) => counts.failed)];
  const failed = `/jobs?queue=${failing}&state=failed`;
  const { id } = (await ask(site, page, `/queues/${failing}/jobs?state=failed&limit=1`)).items[0];
  for (const [name, path, scheme = 'light'] of [
    ['overview', ''],
    ['overview-dark', '', 'dark'],
    ['queue', `/queues/${busy}`],
    ['jobs', failed],
    ['job', `/queues/${failing}/jobs/${encodeURIComponent(id)}`],
    ['failed', '/failed'],
    ['workers', '/workers'],
  ]) {
    const bytes = await picture(site, path, scheme);
    await writeFile(`${folder}/${name}.png`, bytes);
    console.log(`${folder}/${name}.png: ${Math.round(bytes.length / 1024)} KB`);
  }
});
