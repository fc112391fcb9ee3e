"""Reads messages by the client that openapi-python-client made: BASE KEY."""

import sys
from uuid import UUID

from gatepost_client import Client
from gatepost_client.api.messaging import get_thread, list_recent_messages
from gatepost_client.models import Problem

base, key = sys.argv[1:]
# The generator leaves keys in a query to its caller.
client = Client(base_url=base, httpx_args={"params": {"token": key}}, raise_on_unexpected_status=True)

messages = list_recent_messages.sync(client=client, limit=5)
assert isinstance(messages, list), messages
for message in messages:
    thread = get_thread.sync(message.room_id, UUID(str(message.uuid)), client=client)
    assert thread is not None and not isinstance(thread, Problem), thread
    print(message.uuid, message.timestamp, message.from_user, message.ai_lead_rating)

refused = list_recent_messages.sync(client=Client(base_url=base))
assert isinstance(refused, Problem), refused
print(refused.code.value)
