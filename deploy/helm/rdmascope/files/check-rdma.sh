#!/bin/bash
# Tells node-problem-detector what the agent of this node has found: 0 no check fails, 1 one fails, 2 unknown; one line of at most 80 bytes.
# It reads the agent's /metrics, so no device is opened and nothing but bash is needed. The agent's local socket could take this place.
export LC_ALL=C
host=${HOST_IP:-127.0.0.1}
port=${RDMASCOPE_PORT:-19810}
# The agent reads its machine at least once a minute.
too_old_seconds=180

say() {
  printf '%.80s\n' "$2"
  exit "$1"
}

{ exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null || say 2 "the agent of rdmascope does not answer on $host:$port"
printf 'GET /metrics HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n' "$host" >&3 2>/dev/null

IFS= read -r -t 3 line <&3
[[ $line == HTTP/1.?' 200 '* ]] || say 2 "the agent of rdmascope gives no metrics: ${line//[^[:print:]]/}"
length=
while IFS= read -r -t 3 line <&3; do
  line=${line%$'\r'}
  [[ -n $line ]] || break
  [[ ${line,,} =~ ^content-length:\ *([0-9]+)$ ]] && length=${BASH_REMATCH[1]}
done

read_bytes=0 last_run='' fails='' subject='' unseen='' checks=0
while IFS= read -r -t 3 line <&3; do
  read_bytes=$((read_bytes + ${#line} + 1))
  case $line in
    'rdmascope_checks_last_run_timestamp_seconds '*) last_run=${line#* } ;;
    'rdmascope_check_status{'*'} 1')
      checks=$((checks + 1))
      [[ $line =~ [\{,]check=\"([^\"]*)\" ]] && check=${BASH_REMATCH[1]}
      case $line in
        *status=\"fail\"*) fails=${fails:-$check} ;;
        *status=\"unknown\"*) unseen=${unseen:-$check} ;;
      esac
      ;;
    # These stand behind the states of the checks.
    'rdmascope_finding{'*status=\"fail\"*'} 1')
      [[ -z $subject && $line == *check=\"$fails\"* && $line =~ [\{,]subject=\"([^\"]*)\" ]] && subject=${BASH_REMATCH[1]}
      ;;
  esac
done

# Half an answer could leave out the check that fails.
[[ -n $length && $read_bytes -eq $length && $checks -gt 0 ]] || say 2 'the answer of the agent of rdmascope is not whole'
last_run=${last_run%%.*}
[[ $last_run =~ ^[1-9][0-9]{8,11}$ ]] || say 2 'the agent of rdmascope has not looked at this node yet'
printf -v now '%(%s)T' -1
((now - last_run <= too_old_seconds)) || say 2 "the agent of rdmascope has not looked at this node for $((now - last_run)) s"
[[ -z $fails ]] || say 1 "$fails fails: $subject"
[[ -z $unseen ]] || say 2 "$unseen could not be judged: rdmascope explain $unseen"
say 0 "no RDMA check fails ($checks looked at)"
