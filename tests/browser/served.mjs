// A server with its default settings and a browser, for all tests of a file. `node --test` runs each
// file in a process of its own, so the two belong to the file that imports them.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";
import { launch } from "./browser.mjs";
import { Server } from "./server.mjs";

export const GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
export const scratch = join(import.meta.dirname ?? ".", "../../target/browser");

export let server;
export let browser;

before(async () => {
  mkdirSync(scratch, { recursive: true });
  server = await Server.start({});
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.remove();
});
