"""A server under callgrind, which counts its instructions."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

# For all rules, under callgrind, on a machine that does other things as well.
START_SECONDS = 300
DUMP_SECONDS = 60
# Instructions in a second of a server that has nothing to do: its clocks and its figures.
IDLE_INSTRUCTIONS = 2_000_000
LISTENERS = ("mqtt", "http", "spamd", "call", "smtp", "lmtp", "milter", "pop3")
USED = LISTENERS[:4]
PAGE = "<!doctype html>\n<html>" + "<p>Static text.</p>\n" * 100 + "{{ now() }}</html>\n"
# Local rules alone: the count of a mail must depend on nothing but the mail.
SETTINGS = """
workers.count = 1
procedures.judges = 1
pages.workers = 1
rules.bayes = false
rules.auto_welcomelist = false
rules.max_time = "10m"
"""
# Rules for topics must cost a delivery nothing: they are looked up with the topic's subscribers.
TOPIC_RULES = 200
TOPIC_RULE = """
[[topics]]
filter = "unused/{number}/+"
payload_max = "1kB"
"""


class Server:
    """One worker, one judge, and every listener that is not used off."""

    def __init__(self, program, folder):
        self.folder = Path(folder)
        self.dumps = 0
        (self.folder / "pages").mkdir()
        (self.folder / "pages/measured.html").write_text(PAGE)
        paths = {"data": "data", "pages.path": "pages", "procedures.path": "procedures", "access_log.path": "log"}
        lines = [f'{key} = "{self.folder / name}"' for key, name in paths.items()]
        for name in LISTENERS:
            lines.append(f"listeners.{name}.bind = {['127.0.0.1:0'] if name in USED else []}")
        rules = "".join(TOPIC_RULE.format(number=number) for number in range(TOPIC_RULES))
        (self.folder / "gatepost.toml").write_text("\n".join(lines) + SETTINGS + rules)
        self.counts = self.folder / "counts"
        with open(self.folder / "out", "wb") as out, open(self.folder / "errors", "wb") as errors:
            self.process = subprocess.Popen(
                ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={self.counts}",
                 program, "serve", "--config", "gatepost.toml"],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)

    def start(self):
        """The listeners' ports, once the rules are warmed up and nothing goes on any more."""
        ports = self._wait_for(self._read_ports, START_SECONDS, "did not start")
        self._wait_for(self._is_idle, START_SECONDS, "does not become idle")
        return ports

    def instructions(self):
        """The number since it was last asked for."""
        self.dumps += 1
        subprocess.run(["callgrind_control", "--dump", str(self.process.pid)], check=True, timeout=DUMP_SECONDS,
                       stdin=subprocess.DEVNULL, capture_output=True)
        path = Path(f"{self.counts}.{self.dumps}")

        def total():
            return path.exists() and re.search(r"^totals: (\d+)$", path.read_text(), re.MULTILINE)

        return int(self._wait_for(total, DUMP_SECONDS, "wrote no counts").group(1))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(DUMP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def errors(self):
        return (self.folder / "errors").read_text(errors="replace")[-2000:]

    def _read_ports(self):
        if "warmed up" not in (self.folder / "errors").read_text(errors="replace"):
            return None
        text = (self.folder / "out").read_text()
        found = {name: re.search(rf"^ *{name} +127\.0\.0\.1:(\d+)", text, re.MULTILINE) for name in USED}
        return all(found.values()) and {name: int(match.group(1)) for name, match in found.items()}

    def _is_idle(self):
        self.instructions()
        time.sleep(1)
        return self.instructions() < IDLE_INSTRUCTIONS

    def _wait_for(self, condition, seconds, failure):
        end = time.monotonic() + seconds
        while not (result := condition()):
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit(f"instructions: the server {failure}:\n{self.errors()}")
            time.sleep(0.05)
        return result
