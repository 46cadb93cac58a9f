#!/bin/bash
# Runs in the lab: one coordinator and one agent for each endpoint. Ends when one of them ends, which is a failure.
endpoints=$1
logs=/tmp/lab/logs
mkdir -p "$logs" /tmp/state
declare -A names

start() {
  local name=$1
  shift
  "$RDMASCOPE_BIN" "$@" --token-file /tmp/lab/token --state-dir "/tmp/state/$name" > "$logs/$name.log" 2>&1 &
  names[$!]=$name
}

mkdir -p /tmp/state/coordinator
start coordinator coordinator --listen 0.0.0.0:8080
for ((i = 1; i <= endpoints; i++)); do
  mkdir -p "/tmp/state/lab-$i"
  start "lab-$i" agent --coordinator 127.0.0.1:8080 --device "rxe$i" --node-name "lab-$i"
done
wait -n -p ended
code=$?
echo "${names[$ended]} ended (exit code $code). Its last words:" >&2
tail -n 20 "$logs/${names[$ended]}.log" >&2
exit 1
