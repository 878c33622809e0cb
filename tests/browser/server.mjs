// A Gatepost server for a test: free ports, and a folder that is removed with it.
import { spawn } from "node:child_process";
import { appendFile, mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const PROTOCOLS = ["mqtt", "http", "smtp", "lmtp", "milter", "pop3", "spamd", "call"];

export class Server {
  /** Starts a server whose pages are `pages`, with these procedures (name to text) and settings. */
  static async start(pages, procedures = {}, settings = []) {
    const server = new Server();
    server.settings = settings;
    server.folder = await mkdtemp(join(tmpdir(), "gatepost-browser-"));
    await mkdir(join(server.folder, "pages"));
    for (const [name, text] of Object.entries(pages)) await writeFile(join(server.folder, "pages", name), text);
    await mkdir(join(server.folder, "procedures"));
    for (const [name, text] of Object.entries(procedures)) await writeFile(join(server.folder, "procedures", name), text);
    server.binds = Object.fromEntries(PROTOCOLS.map((name) => [name, "127.0.0.1:0"]));
    await server.run();
    return server;
  }

  /** Runs the binary until it names its dashboard, which it does when every listener is open. */
  async run() {
    const lines = PROTOCOLS.map((name) => `listeners.${name}.bind = ["${this.binds[name]}"]`);
    lines.push(`data = "${this.folder}/data"`, `pages.path = "${this.folder}/pages"`, `access_log.path = "${this.folder}/access.log"`);
    lines.push(...this.settings);
    // Mail to kept/… goes into quarantine.
    await mkdir(join(this.folder, "procedures"), { recursive: true });
    await writeFile(join(this.folder, "procedures/keep.luau"), `return function() return "quarantine", "kept for a look" end\n`);
    lines.push(`procedures.path = "${this.folder}/procedures"`);
    lines.push(`[[scope]]`, `path = "/kept"`, `topics = ["kept/#"]`, `run = ["/keep"]`);
    lines.push(`[[scope]]`, `path = "/mail"`, `listeners = ["smtp", "lmtp"]`, `run = ["/sizecheck", "/spamcheck"]`);
    this.config = join(this.folder, "gatepost.toml");
    await writeFile(this.config, lines.join("\n") + "\n");
    this.process = spawn(process.env.GATEPOST, ["serve", "--config", this.config], { stdio: ["ignore", "pipe", "pipe"], cwd: this.folder });
    this.log = "";
    this.process.stderr.on("data", (text) => (this.log += text));
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    for await (const line of createInterface({ input: this.process.stdout })) {
      const [name, address] = line.trim().split(/\s+/);
      if (PROTOCOLS.includes(name)) this.binds[name] = address;
      if (name === "dashboard") return;
    }
    throw new Error(`the server did not start:\n${this.log}`);
  }

  /** Adds lines to the config, for the next reload. */
  async configure(...lines) {
    await appendFile(this.config, lines.join("\n") + "\n");
  }

  /** Puts a procedure into the folder. */
  async procedure(name, text) {
    await writeFile(join(this.folder, "procedures", name + ".luau"), text);
  }

  get origin() {
    return `http://${this.binds.http}`;
  }

  /** Publishes by HTTP; the server answers when it is durable. */
  async publish(topic, payload) {
    const answer = await fetch(`${this.origin}/topics/${topic}`, { method: "POST", body: payload, headers: { "content-type": "text/plain" } });
    if (!answer.ok) throw new Error(`publishing to ${topic}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** Sends a mail with swaks; resolves to its exit status and its transcript. */
  mail(subject, body, to = "alarms+fire@localhost") {
    const swaks = spawn("swaks", ["--server", this.binds.smtp, "--from", "sender@example.org", "--to", to, "--h-Subject", subject, "--body", body]);
    let transcript = "";
    swaks.stdout.on("data", (text) => (transcript += text));
    return new Promise((resolve) => swaks.once("close", (status) => resolve({ status, transcript })));
  }

  async stop() {
    this.process.kill("SIGTERM");
    await this.ended;
  }

  async remove() {
    await this.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}
