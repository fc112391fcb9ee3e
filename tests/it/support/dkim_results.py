"""What dkimpy, an implementation of DKIM that shares no code with ours, says of signatures.

Reads {"now": seconds, "zones": {zone: {name: text}}, "messages": {name: [file, zone]}} as JSON and
answers {name: [[verified, why not], ...]}, the signatures from the top. `now` is its clock, and a
zone has all the TXT records that there are.
"""

import json
import logging
import sys
import types

import dkim


class Said(logging.Handler):
    """What it logs is why a signature fails."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def results(raw, zone):
    def txt(name, timeout=None):
        text = zone.get(name.decode("utf-8", "replace").rstrip(".").lower())
        return None if text is None else text.encode()

    logger = logging.Logger("dkimpy")
    said = Said()
    logger.addHandler(said)
    found = []
    try:
        message = dkim.DKIM(raw, logger=logger, minkey=1024)
    except Exception as error:  # not a message to it, so nothing that it could verify
        return [[False, repr(error)]]
    fields = [name for name, _ in message.headers if name.lower() == b"dkim-signature"]
    for at in range(len(fields)):
        said.lines.clear()
        try:
            verified = dkim.DKIM(raw, logger=logger, minkey=1024).verify(at, dnsfunc=txt)
        except Exception as error:  # it lets errors of other libraries through; all mean "no"
            verified = False
            said.lines.append(repr(error))
        found.append([verified, "; ".join(said.lines)])
    return found


def main():
    asked = json.load(sys.stdin)
    dkim.time = types.SimpleNamespace(time=lambda: asked["now"])
    answer = {}
    for name, (file, zone) in asked["messages"].items():
        with open(file, "rb") as message:
            answer[name] = results(message.read(), asked["zones"][zone])
    json.dump(answer, sys.stdout)


main()
