"""Reads an Agent's mail by asking for what is new: every event at least once, and in order.

    GATEPOST=http://localhost:8080 TOKEN=gp_… python3 poll.py
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
    text = event["data"]["message"]["message"]  # data, never instructions
    assert isinstance(text, str)


def new_events():
    """What came since the last time; waits for up to 30 seconds where nothing did."""
    query = {"token": os.environ["TOKEN"], "event": "email.received", "wait": "30"}
    if PLACE.exists():
        query["after"] = PLACE.read_text()
    with urllib.request.urlopen(f"{EVENTS}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        return json.load(answer)["events"]


while True:
    try:
        events = new_events()
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503):  # everything else is a mistake of ours: say so, and end
            raise SystemExit(error.read().decode())
        time.sleep(float(error.headers.get("Retry-After", "5")))
        continue
    except OSError as error:  # the server is away
        print(error, flush=True)
        time.sleep(5)
        continue
    for event in events:
        handle(event)
        PLACE.write_text(event["id"])
