#!/usr/bin/env bash
# Builds CoreDNS from pinned Go modules. Nothing is built twice: it lies outside the checkout, in a folder named by a
# hash of what decides it. kube-proxy comes with the control plane.
#   build.sh          build it if it is missing, print the folder
#   build.sh --where  print the folder only; exit 1 if it is not complete
# KUBENODE_CACHE_DIR chooses the parent folder (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
key=$(cat "$here"/build.sh "$here"/coredns/* | sha256sum | cut -c1-16)
parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
out=$parent/cluster-network-$key
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
if [ "${1:-}" = --where ]; then echo "$out"; exit 1; fi
command -v go >/dev/null || { echo "build.sh: Go 1.26 or later is needed to build CoreDNS; install it or leave these tests out" >&2; exit 1; }

mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites on one machine build once
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
echo "building CoreDNS" >&2
(cd "$here/coredns" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "-s -w" -o "$out/coredns" . >&2)
touch "$out/complete"
echo "$out"
