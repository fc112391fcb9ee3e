"""Reads an Agent's mail from one connection that stays open (server-sent events).

    GATEPOST=http://localhost:8080 TOKEN=gp_… python3 stream.py
"""

import http.client
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
    if not event["data"].get("erased"):  # of an erased message there is nothing to read
        print(event["from"], event["subject"], flush=True)


def keep(place):
    """Keeps the id of the last event, whole or not at all."""
    new = PLACE.with_name(PLACE.name + ".new")
    new.write_text(place)
    new.replace(PLACE)


def follow():
    """Handles events until the server ends the stream, as it does every quarter of an hour."""
    query = urllib.parse.urlencode({"token": os.environ["TOKEN"], "event": "email.received"})
    headers = {"Accept": "text/event-stream"}
    if PLACE.exists():
        headers["Last-Event-ID"] = PLACE.read_text()
    request = urllib.request.Request(f"{EVENTS}?{query}", headers=headers)
    # A comment line comes every 15 seconds, so a silence of 60 means that the connection is gone.
    with urllib.request.urlopen(request, timeout=60) as stream:
        data = place = ""
        for line in stream:
            name, _, value = line.decode().rstrip("\r\n").partition(":")
            if name == "data":
                data += value.removeprefix(" ")
            elif name == "id":
                place = value.removeprefix(" ")
            elif name == "" and value == "":  # an empty line ends a block
                if data:
                    handle(json.loads(data))
                if place:  # also of a block without an event: the stream is as far as that
                    keep(place)
                data = place = ""


while True:
    try:
        follow()
    except urllib.error.HTTPError as error:
        if error.code < 500 and error.code not in (408, 429):  # a mistake of ours
            raise SystemExit(error.read().decode())
        time.sleep(float(error.headers.get("Retry-After", "5")))
    except (OSError, http.client.HTTPException) as error:
        print(error, flush=True)
        time.sleep(3)
