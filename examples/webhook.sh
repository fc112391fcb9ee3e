#!/usr/bin/env bash
# Makes a webhook, has a test event sent to it, and shows what became of that.
#
#   GATEPOST=http://localhost:8080 TOKEN=gp_… URL=https://app.example.com/hooks bash webhook.sh
set -euo pipefail
base=$GATEPOST/api/v2

ask() { curl -sS --fail-with-body "$@"; }
# The first field of this name in the JSON that is read.
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }

made=$(ask -X POST "$base/webhooks?token=$TOKEN" -H 'Content-Type: application/json' \
  -d "{\"url\": \"$URL\", \"label\": \"example\", \"type\": \"incoming\"}")
hook=$(printf '%s' "$made" | sed 's/.*"webhook":{"id":"\([^"]*\)".*/\1/')
echo "webhook $hook"
echo "secret  $(printf '%s' "$made" | field secret)   (shown this once: give it to the receiver)"

ask -X POST "$base/webhooks/$hook/test?token=$TOKEN" >/dev/null
while true; do
  deliveries=$(ask "$base/webhooks/$hook/deliveries?token=$TOKEN&state=delivered")
  case $deliveries in *'"deliveries":[]'*) sleep 1 ;; *) break ;; esac
done
echo "delivered: $deliveries"
