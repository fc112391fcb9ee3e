"""Reads an Agent's mail from one connection that stays open (server-sent events).

    GATEPOST=http://localhost:8080 TOKEN=gp_… python3 stream.py
"""

import json
import os
import pathlib
import time
import urllib.error
import urllib.parse
import urllib.request

EVENTS = os.environ["GATEPOST"] + "/api/v2/events"
PLACE = pathlib.Path(os.environ.get("PLACE", "place"))


def handle(event):
    """Your part. An event may come twice: do nothing the second time that you see its id."""
    print(event["from"], event["subject"], flush=True)


def follow():
    """Handles events until the server ends the stream, as it does every quarter of an hour."""
    query = urllib.parse.urlencode({"token": os.environ["TOKEN"], "event": "email.received"})
    headers = {"Accept": "text/event-stream"}
    if PLACE.exists():
        headers["Last-Event-ID"] = PLACE.read_text()
    request = urllib.request.Request(f"{EVENTS}?{query}", headers=headers)
    # A comment line comes every 15 seconds, so a silence of 60 means that the connection is gone.
    with urllib.request.urlopen(request, timeout=60) as stream:
        data = ""
        for line in stream:
            name, _, value = line.decode().rstrip("\r\n").partition(":")
            if name == "data":
                data += value.removeprefix(" ")
            elif name == "" and value == "" and data:  # an empty line ends an event
                event, data = json.loads(data), ""
                handle(event)
                PLACE.write_text(event["id"])


while True:
    try:
        follow()
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503):
            raise SystemExit(error.read().decode())
        time.sleep(float(error.headers.get("Retry-After", "5")))
    except OSError as error:
        print(error, flush=True)
        time.sleep(3)
