"""All addresses in all From fields of messages, as Python's own mail parser reads them.

Reads {name: file} as JSON and answers {name: [address, ...]}; what is no address, or cannot be
read, is told in words that no address has.
"""

import email
import json
import sys
from email import policy


def text(value):
    """Raw octets outside ASCII come as surrogates."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def addresses(raw):
    found = []
    for field in email.message_from_bytes(raw, policy=policy.default).get_all("From", []):
        for group in field.groups:
            if group.display_name is not None:
                found.append(f"a group: {text(group.display_name)}")
            for one in group.addresses:
                found.append(text(f"{one.username}@{one.domain}"))
    return found


def read(file):
    try:
        with open(file, "rb") as message:
            return addresses(message.read())
    except Exception as error:  # whatever its parser lets through is no address
        return [f"an error: {error!r}"]


json.dump({name: read(file) for name, file in json.load(sys.stdin).items()}, sys.stdout)
