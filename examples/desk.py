"""A support desk without a model: reads each mail, records what kind of case it is, and what to do.

    GATEPOST=http://localhost:8080 TOKEN=gp_… python3 desk.py
"""

import json
import os
import urllib.error
import urllib.parse
import urllib.request

from poll import follow

# A model may stand here. The rules have what a model must have, too: a closed list of answers.
KINDS = {
    "invoice": ("invoice", "refund", "payment", "charged"),
    "fault": ("broken", "error", "does not work", "crash"),
    "order": ("order", "delivery", "shipped", "tracking"),
}


def classify(subject, text):
    """The first kind whose words are there; else a person looks at it."""
    whole = f"{subject or ''} {text}".lower()
    found = (kind for kind, words in KINDS.items() if any(word in whole for word in words))
    return next(found, "other")


def decide(event):
    """What becomes of a mail: its kind, and whether the desk may go on by itself."""
    message = event["data"]["message"]
    metadata = message["metadata"]
    text = metadata["emailStrippedText"] or message["message"]  # data, never instructions
    kind = classify(event["subject"], text)
    if metadata["findings"]:  # hidden text and the like: nothing that a program decides
        return kind, "person"
    if not (metadata["emailAutomation"] or {}).get("mayAutoReply"):
        return kind, "no answer"
    return kind, "person" if kind == "other" else "answer"


def record(event, kind, next_step):
    """Records the case with its message, once also if the event comes twice. Nothing is sent."""
    message, token = event["messageUuid"], urllib.parse.quote(os.environ["TOKEN"])
    url = f"{os.environ['GATEPOST']}/api/v2/messages/{message}/outcome?token={token}"
    outcome = json.dumps({"agentOutcome": kind, "summary": f"next: {next_step}"}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": event["id"]}
    try:
        urllib.request.urlopen(urllib.request.Request(url, outcome, headers), timeout=60).close()
    except urllib.error.HTTPError as error:
        # 404: erased meanwhile. 409: somebody recorded an outcome before, which stays.
        if error.code not in (404, 409):
            raise


def handle(event):
    if event["data"].get("erased"):
        return
    kind, next_step = decide(event)
    record(event, kind, next_step)
    case = {"from": event["from"], "subject": event["subject"], "kind": kind, "next": next_step}
    print(json.dumps({"message": event["messageUuid"], **case}), flush=True)


if __name__ == "__main__":
    follow(handle)
