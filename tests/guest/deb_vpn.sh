#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Fetch a file through a tunnel between two network namespaces. Both ends encrypt and decrypt in
# ovpn-dco, a module of Debian, which does that in items of a workqueue for each tunnel.
set -eu
waited=0

# END ADDRESS OTHER-END ITS-ADDRESS OPTION...
tunnel()
{
	end=$1 address=$2 other=$3 remote=$4
	shift 4
	ip netns exec "$end" openvpn --dev tun0 --proto udp --local "10.0.0.$address" --remote "10.0.0.$remote" \
		--ifconfig "10.1.0.$address" "10.1.0.$remote" --cert "$end.crt" --key "$end.key" \
		--peer-fingerprint "$(cat "$other.print")" "$@" >"$end.log" 2>&1 &
}

cd "$(mktemp -d)"
modprobe ovpn-dco-v2
for end in a b; do
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj "/CN=$end" \
		-keyout "$end.key" -out "$end.crt" 2>/dev/null
	openssl x509 -in "$end.crt" -noout -fingerprint -sha256 | cut -d = -f 2 >"$end.print"
	ip netns add "$end"
done
ip link add va netns a type veth peer name vb netns b
ip -n a address add 10.0.0.1/24 dev va
ip -n b address add 10.0.0.2/24 dev vb
ip -n a link set va up
ip -n b link set vb up
tunnel a 1 b 2 --tls-server --dh none
a=$!
tunnel b 2 a 1 --tls-client
b=$!
for log in a.log b.log; do
	until grep 'Initialization Sequence Completed' $log; do
		sleep 1
		[ "$((waited += 1))" -lt 300 ] || { cat ./*.log; exit 1; }
	done
done
# The kind of the device
ip -n a -d link show dev tun0
# The rescuers of the workqueues
cat /proc/[0-9]*/comm | grep '^kworker/R-ovpn'

head -c 16M /dev/urandom >data
ip netns exec a python3 -m http.server --bind 10.1.0.1 8000 >http.log 2>&1 &
http=$!
ip netns exec b wget -nv --timeout=60 --tries=30 --retry-connrefused -O copy http://10.1.0.1:8000/data
cmp data copy

kill "$a" "$b" "$http"
wait
ip netns delete a
ip netns delete b
rmmod ovpn_dco_v2
