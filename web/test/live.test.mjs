// The dashboard: the page served without data, against a stand-in for `lockstep serve`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fixture } from "../fixtures/make_fixture.mjs";
import { kSmallPhone, new_page, start_browser, until, walk_through } from "./browser.mjs";
import { start_mock_server } from "./mock_server.mjs";

let browser;
before(async () => (browser = await start_browser()));
after(() => browser?.close());

async function live(documents, body) {
  const server = await start_mock_server(documents);
  const opened = await new_page(browser);
  try {
    await body(server, opened);
  } finally {
    await opened.context.close();
    await server.stop();
  }
}
const heading = (page) => page.locator("main h1");
const say = async (page, words) =>
  page.waitForFunction((w) => document.querySelector("main h1")?.textContent === w, words);
const kHealthy = "No findings in 8 workers × 400 steps.";
const kFound = "Rank 3 reads the same batches as rank 0 since step 12.";

test("shows the newest run, is live, and changes runs by the chooser", () =>
  live(
    { second: fixture("findings"), first: fixture("healthy"), s1: fixture("study") },
    async (server, { page, problems }) => {
      await page.goto(server.url);
      await say(page, kFound);
      await page.waitForSelector('.state[data-kind="live"]');
      assert.equal(await page.locator("#run option").first().innerText(), "second (8 × 400, 3 findings)");
      await page.getByLabel("Run", { exact: true }).selectOption("first");
      await say(page, kHealthy);
      assert.equal(await page.locator("#findings .card:visible").count(), 0);
      await page.getByLabel("Run", { exact: true }).selectOption("s1");
      await say(page, "S1: seeds of the sampler");
      assert.equal(await page.locator("#loss").isVisible(), false);
      await page.getByLabel("Run", { exact: true }).selectOption("second");
      await say(page, kFound);
      await walk_through(page);
      assert.ok(server.requests.some((r) => r === "GET /api/run?name=second&points=1000"));
      assert.deepEqual(problems, []);
    },
  ));

test("an update refetches in place and keeps the reader's choices", () =>
  live({ run: fixture("healthy") }, async (server, { page, problems }) => {
    await page.goto(server.url);
    await say(page, kHealthy);
    await page.waitForSelector('.state[data-kind="live"]');
    await page.locator("#workers .choice label", { hasText: "Gradient norm" }).click();
    await page.locator(".row-names button").nth(4).click();
    await page.locator("#loss details summary").click();
    server.set("run", fixture("findings"));
    server.announce("run");
    await say(page, kFound);
    assert.equal(await page.locator("#findings .card").count(), 3);
    assert.ok(await page.locator("#workers .choice input[value=norm]").isChecked());
    assert.equal(await page.locator(".panel h3").innerText(), "Rank 4 against the others");
    assert.ok(await page.locator("#loss details").evaluate((e) => e.open));
    assert.deepEqual(problems, []);
  }));

test("the dashboard fits a phone, with a run of a long name", async () => {
  const server = await start_mock_server({ ["long-name-".repeat(20)]: fixture("findings") });
  const { page, context, problems } = await new_page(browser, {
    viewport: kSmallPhone,
    isMobile: true,
    hasTouch: true,
  });
  try {
    await page.goto(server.url);
    await say(page, kFound);
    await walk_through(page);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= kSmallPhone.width);
    assert.ok((await page.locator("header").boundingBox()).height < 100, "the header wraps");
    const inside = await page.evaluate(() =>
      [...document.querySelectorAll("header .bar *")].every((e) => e.getBoundingClientRect().right <= innerWidth),
    );
    assert.ok(inside, "the header is cut off");
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
    await server.stop();
  }
});

test("many updates cost few fetches", () =>
  live({ run: fixture("healthy") }, async (server, { page }) => {
    await page.goto(server.url);
    await say(page, kHealthy);
    await page.waitForSelector('.state[data-kind="live"]');
    const fetches = () => server.requests.filter((r) => r.startsWith("GET /api/run?")).length;
    const before_updates = fetches();
    for (let i = 0; i < 50; ++i) server.announce("run");
    await until(page, async () => fetches() > before_updates);
    assert.ok(fetches() - before_updates <= 5, `${fetches() - before_updates} fetches`);
  }));

test("an empty folder says so, and fills when a run begins", () =>
  live({}, async (server, { page, problems }) => {
    await page.goto(server.url);
    await page.waitForSelector('.state[data-kind="live"]');
    assert.match(await page.locator(".error").innerText(), /no runs in this folder yet/);
    server.set("new", fixture("empty"));
    server.announce("new");
    await say(page, "No verdict yet: no step has been analysed.");
    assert.equal(await page.locator(".error").isVisible(), false);
    server.set("new", fixture("findings"));
    server.announce("new");
    await say(page, kFound);
    await walk_through(page);
    assert.deepEqual(problems, []);
  }));

test("a server error is shown in its own words, and what was shown stays", () =>
  live({ run: fixture("healthy") }, async (server, { page }) => {
    await page.goto(server.url);
    await say(page, kHealthy);
    await page.waitForSelector('.state[data-kind="live"]');
    server.fail({
      status: 500,
      body: { version: 1, error: { code: "io", message: "the run store cannot be read: disk I/O error" } },
    });
    server.announce("run");
    await page.waitForFunction(() => /disk I\/O error/.test(document.querySelector(".error").textContent));
    assert.equal(await heading(page).innerText(), kHealthy);
    server.fail({ status: 401, body: {} });
    await page.reload();
    await page.waitForFunction(() => /wants a token/.test(document.querySelector(".error").textContent));
  }));

test("a broken stream is shown, comes back by itself and catches up", () =>
  live({ run: fixture("healthy") }, async (server, { page }) => {
    await page.goto(server.url);
    await say(page, kHealthy);
    await page.waitForSelector('.state[data-kind="live"]');
    server.set("run", fixture("findings"));
    server.cut();
    await page.waitForSelector('.state[data-kind="lost"]');
    await page.waitForSelector('.state[data-kind="live"]');
    await say(page, kFound);
  }));

test("names are only text, also in the chooser and the address", () => {
  const evil = '"><img src=x onerror=window.__hacked=1>&name=other#?/../';
  return live({ [evil]: fixture("hostile") }, async (server, { page, problems }) => {
    await page.goto(server.url);
    await page.waitForFunction(() => document.querySelector("main h1")?.textContent.startsWith("<img"));
    assert.equal(await page.locator("#run").inputValue(), evil);
    assert.equal(await page.evaluate(() => window.__hacked), undefined);
    assert.deepEqual(problems, []);
  });
});
