"""A page in a browser that runs in real time and does what a visitor does, over its own pipe."""

import fcntl
import json
import os
import select
import shutil
import signal
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr"),
    # What the browser itself asks for finds nobody.
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
PATIENCE = 60
"""Seconds after which nothing more is expected."""
CODES = {" ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}


class Tab:
    """One tab of a browser of its own; ``said`` is what its console said."""

    def __init__(self, folder):
        # The browser reads commands from its descriptor 3 and answers to 4.
        (self.child_in, self.out), (self.answers, self.child_out) = pipe(), pipe()
        given = [BROWSER, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        actions = [(os.POSIX_SPAWN_DUP2, self.child_in, 3)]
        actions += [(os.POSIX_SPAWN_DUP2, self.child_out, 4)]
        actions += [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        self.process = os.posix_spawn(BROWSER, given, os.environ, file_actions=actions)
        for descriptor in (self.child_in, self.child_out, log):
            os.close(descriptor)
        self.number, self.session, self.buffer, self.events = 0, None, b"", []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        """Command something and wait for the answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def receive(self):
        """The next message."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser has gone"
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, address):
        """Go to a page and wait until it is there."""
        self.events.clear()
        self.send("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def ask(self, expression):
        """The value of an expression of JavaScript."""
        wait = {"returnByValue": True, "awaitPromise": True}
        answer = self.send("Runtime.evaluate", expression=expression, **wait)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression):
        """Wait for an expression to become true."""
        end = time.monotonic() + PATIENCE
        while not self.ask(expression):
            assert time.monotonic() < end, f"{expression} never came true"

    def press(self, key):
        """Press a key and let it go."""
        about = {"key": key, "windowsVirtualKeyCode": CODES[key]}
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def screen(self, width, height=900, scale=1):
        """A screen of another size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def prefer(self, **wishes):
        """What a visitor prefers, such as ``color_scheme="dark"``."""
        features = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in wishes.items()
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    @property
    def said(self):
        """What the console said since the page was opened."""
        loud = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        return [event["params"] for event in self.events if event.get("method") in loud]

    def close(self):
        """End the browser."""
        os.kill(self.process, signal.SIGTERM)
        os.waitpid(self.process, 0)
        os.close(self.out)
        os.close(self.answers)


def pipe():
    """The two ends of a pipe, with numbers that are not in the way of 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved
