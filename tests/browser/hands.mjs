// Three ways to use a page: with the mouse, with the keyboard alone, and without script.

/** So many times Tab is pressed before something is not reached. */
const TABS = 200;

const mouse = {
  press: (_, what) => what.click(),
  tick: (_, box) => box.check(),
  write: (_, field, text) => field.fill(text),
  choose: (_, list, value) => list.selectOption(value),
};

/** Presses Tab until the focus is there, and is seen. */
async function reach(page, what) {
  const look = (element) => {
    if (document.activeElement !== element) return null;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const isField = element.matches('input, textarea, select');
    return isField || (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) ? 'seen' : 'not seen';
  };
  for (let tabs = 0; tabs < TABS; tabs++) {
    const is = await what.evaluate(look);
    if (is === 'seen') return;
    if (is) throw new Error(`the focus is not seen on ${what}`);
    await page.keyboard.press('Tab');
  }
  throw new Error(`not reached by ${TABS} tabs: ${what}`);
}

const keys = {
  async press(page, what) {
    await reach(page, what);
    await page.keyboard.press('Enter');
  },
  async tick(page, box) {
    await reach(page, box);
    await page.keyboard.press('Space');
  },
  async write(page, field, text) {
    await reach(page, field);
    await page.keyboard.press('Control+A');
    await page.keyboard.insertText(text);
  },
  async choose(page, list, value) {
    await reach(page, list);
    await page.keyboard.press('Home');
    while ((await list.inputValue()) !== value) await page.keyboard.press('ArrowDown');
  },
};

/** What a way is called, how it uses a page, and whether there is a script. */
export const HANDS = {
  mouse: { ...mouse, scripts: true },
  keys: { ...keys, scripts: true },
  'no-script': { ...mouse, scripts: false },
};
