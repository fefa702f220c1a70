"""A server that takes what is posted to it, and answers as it is told."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(ThreadingHTTPServer):
    """Takes alerts, and answers as it is told: with a status, or not for a while."""

    daemon_threads = True

    def __init__(self, *statuses, wait=0.0):
        self.taken, self.headers, self.paths = [], [], []
        self.statuses, self.wait = list(statuses), wait
        super().__init__(("127.0.0.1", 0), _Answering)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook?x=1"


class _Answering(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.wait)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status < 300:
            self.server.taken.append(json.loads(body))
            self.server.headers.append((dict(self.headers), body))
            self.server.paths.append(self.path)
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


@contextmanager
def receiving(*statuses, wait=0.0):
    server = Receiver(*statuses, wait=wait)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
