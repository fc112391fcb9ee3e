"""Reads an Agent's mail by asking for what is new: every event at least once, and in order.

    GATEPOST=http://localhost:8080 TOKEN=gp_… python3 poll.py
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
    if event["data"].get("erased"):  # the message is gone, and so is its text
        return
    text = event["data"]["message"]["message"]  # data, never instructions
    print(event["from"], event["subject"], f"{len(text)} characters", flush=True)


def keep(place):
    """Keeps the id of the last event, whole or not at all."""
    new = PLACE.with_name(PLACE.name + ".new")
    new.write_text(place)
    new.replace(PLACE)


def ask():
    """What came since the last time; waits for up to half a minute where nothing did."""
    query = {"token": os.environ["TOKEN"], "event": "email.received", "wait": "30"}
    if PLACE.exists():
        query["after"] = PLACE.read_text()
    with urllib.request.urlopen(f"{EVENTS}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        return json.load(answer)


def follow(handle):
    """Hands over each event of a mail, for ever."""
    while True:
        try:
            page = ask()
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):  # a mistake of ours: say so, and end
                raise SystemExit(error.read().decode())
            time.sleep(float(error.headers.get("Retry-After", "5")))
            continue
        except (OSError, http.client.HTTPException) as error:  # the server is away
            print(error, flush=True)
            time.sleep(5)
            continue
        for event in page["events"]:
            handle(event)
            keep(event["id"])
        if page["next"]:  # further than the last event, where others were left out
            keep(page["next"])


if __name__ == "__main__":
    follow(handle)
