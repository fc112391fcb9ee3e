#!/usr/bin/env bash
# Reads an Agent's mail from one connection that stays open, and prints each event as one line of JSON.
#
#   GATEPOST=http://localhost:8080 TOKEN=gp_… bash stream.sh
set -euo pipefail
place=${PLACE:-place}

while true; do
  last=()
  if [ -s "$place" ]; then last=(-H "Last-Event-ID: $(cat "$place")"); fi
  # The server ends a stream every quarter of an hour: connect again.
  curl -NsS --fail-with-body -H 'Accept: text/event-stream' ${last[@]+"${last[@]}"} \
    "$GATEPOST/api/v2/events?token=$TOKEN&event=email.received" |
    while IFS= read -r line; do
      case $line in
      'id:'*) id=${line#id:} id=${id# } ;;
      'data:'*) printf '%s\n' "${line#data:}" ;; # your part
      '') if [ -n "${id:-}" ]; then
        printf '%s' "$id" >"$place.new"
        mv "$place.new" "$place"
      fi ;;
      esac
    done || sleep 3
done
