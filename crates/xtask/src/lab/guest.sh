#!/bin/bash
# Process 1 of the lab: N RDMA endpoints on one bridge, then the command, whose exit code goes to the host.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8
read -r N < /tmp/lab/.boot/endpoints
export LAB_ENDPOINTS=$N
exec 9> /dev/lab-control > /tmp/lab/.boot/guest.log 2>&1
fail() { echo "failed $*" >&9; while :; do read -r -t 60 <> <(:); done; }
pause() { read -r -t 0.02 <> <(:); }

echo lab > /proc/sys/kernel/hostname
# Modules come from the share, also those that the kernel asks for by itself (a queueing discipline, say).
export MODPROBE_OPTIONS="-d /tmp/kernel"
echo /run/modprobe > /proc/sys/kernel/modprobe
# Beside the ports' set-up, because each takes a second. rdma_rxe asks for the crc32 algorithm once, at load time:
# without it no device can be added.
modprobe -a crc32_generic rdma_rxe rdma_ucm ib_uverbs sch_netem sch_tbf sch_prio cls_u32 &
drivers=$!
modprobe -a veth bridge || fail "the modules veth and bridge cannot be loaded"

# All endpoints are in one network namespace (rxe of this kernel talks in no other), so each is a local address of
# all others and traffic would take the loopback device, where rxe drops it. Hence one routing table for each port,
# asked before the local table, and ports that answer ARP for their own address only.
for setting in rp_filter=0 accept_local=1 arp_ignore=1 arp_announce=2; do
  for scope in all default; do echo "${setting#*=}" > "/proc/sys/net/ipv4/conf/$scope/${setting%=*}"; done
done
{
  echo "link set lo up"
  echo "rule add pref 200 lookup local"
  echo "link add br0 type bridge"
  echo "link set br0 mtu 9000 up"
  for ((i = 1; i <= N; i++)); do
    echo "link add w$i mtu 9000 type veth peer name b$i mtu 9000"
    echo "link set b$i master br0 up"
    echo "link set w$i up"
    echo "addr add 10.8.0.$i/24 dev w$i"
    echo "route add 10.8.0.0/24 dev w$i src 10.8.0.$i table $((100 + i))"
    echo "rule add pref $((100 + i)) oif w$i lookup $((100 + i))"
  done
  echo "rule del pref 0"
  echo "link set eth0 up"
  echo "addr add 10.0.2.15/24 dev eth0"
  echo "route add default via 10.0.2.2"
} | ip -batch - || fail "the ports cannot be set up"
wait "$drivers" || fail "the RDMA modules cannot be loaded"
for ((i = 1; i <= N; i++)); do echo "link add rxe$i type rxe netdev w$i"; done > /run/devices
rdma -b /run/devices || fail "the RDMA devices cannot be added"

# An endpoint is up when its port is active and the GID of its address is there; both come a moment later.
up() {
  local port=/sys/class/infiniband/rxe$1/ports/1 state gid wanted
  read -r state < "$port/state" && [[ $state == *ACTIVE ]] || return 1
  printf -v wanted '0000:0000:0000:0000:0000:ffff:0a08:%04x' "$1"
  for index in "$port"/gids/{0,1,2,3}; do
    read -r gid < "$index" && [[ $gid == "$wanted" ]] && return 0
  done
  return 1
} 2>/dev/null
for ((i = 1; i <= N; i++)); do
  for ((try = 0; ; try++)); do
    up "$i" && break
    ((try < 1000)) || fail "endpoint rxe$i does not come up"
    pause
  done
done

[[ -x /tmp/lab/rdmascope ]] && export RDMASCOPE_BIN=/tmp/lab/rdmascope
read -r uptime _ < /proc/uptime
echo "ready $uptime" >&9

# The command writes to pipes, as under any shell; a port itself could be opened by one process only.
exec 7> >(trap '' TERM INT HUP; exec cat > /dev/lab-stdout); out=$!
exec 8> >(trap '' TERM INT HUP; exec cat > /dev/lab-stderr); err=$!
cd /tmp/lab || fail "no shared folder"
bash /tmp/lab/.boot/command.sh < /dev/null >&7 2>&8 7>&- 8>&- 9>&-
code=$?
# What the command left running would keep its output open for ever.
for process in /proc/[1-9]*; do
  process=${process#/proc/}
  [[ $process == 1 || $process == "$out" || $process == "$err" ]] || kill -9 "$process"
done 2>/dev/null
echo "exit $code" >&9
exec 7>&- 8>&-
wait "$out" "$err"
echo flushed >&9
while :; do read -r -t 60 <> <(:); done
