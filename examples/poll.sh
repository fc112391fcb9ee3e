#!/usr/bin/env bash
# Reads an Agent's mail by asking for what is new, and prints each page as one line of JSON.
#
#   GATEPOST=http://localhost:8080 TOKEN=gp_… bash poll.sh
set -euo pipefail
place=${PLACE:-place}

while true; do
  after=''
  if [ -s "$place" ]; then after="&after=$(cat "$place")"; fi
  if ! page=$(curl -sS --fail-with-body --max-time 60 \
    "$GATEPOST/api/v2/events?token=$TOKEN&event=email.received&wait=30$after"); then
    echo "$page" >&2
    sleep 5
    continue
  fi
  case $page in *'"events":[]'*) ;; *) printf '%s\n' "$page" ;; esac # your part
  # The place behind the page, also where it is empty because others were left out.
  next=$(printf '%s' "$page" | sed -n 's/.*"next":"\([^"]*\)".*/\1/p')
  if [ -n "$next" ]; then
    printf '%s' "$next" >"$place.new"
    mv "$place.new" "$place"
  fi
done
