"""Is told of an Agent's mail by POSTs, and believes only those that are signed.

    pip install standardwebhooks
    SECRET=whsec_… PORT=8000 python3 webhook.py
"""

import json
import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

waiting = queue.Queue()


def handle(event):
    """Your part."""
    print(event["event"], event.get("from"), event.get("subject"), flush=True)


class Receiver(BaseHTTPRequestHandler):
    hook = Webhook(os.environ["SECRET"])

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.hook.verify(body, dict(self.headers))  # the body as received, before it is read
        except WebhookVerificationError:
            self.answer(401)
            return
        waiting.put(json.loads(body))  # a real application writes it to its database here
        self.answer(204)  # answer fast, work afterwards

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(handle):
    """Hands over each event once, for ever."""
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    seen = set()  # a real application keeps these ids with its data
    while True:
        event = waiting.get()
        if event["id"] not in seen:
            seen.add(event["id"])
            handle(event)


if __name__ == "__main__":
    serve(handle)
