#!/usr/bin/env bash
# Builds helm for the tests of the chart from a pinned Go module, and prints its path. Nothing is built twice: it lies
# outside the checkout, in a folder named by a hash of what decides it, apart from the control plane's: a new helm
# must not build that again.
#   build.sh          build it if it is missing, print its path
#   build.sh --where  print its path only; exit 1 if it is missing
# KUBENODE_CACHE_DIR chooses the parent folder (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
key=$(cat "$here"/build.sh "$here"/go.mod "$here"/go.sum | sha256sum | cut -c1-16)
parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
out=$parent/helm-$key
if [ -x "$out/helm" ]; then echo "$out/helm"; exit 0; fi
if [ "${1:-}" = --where ]; then echo "$out/helm"; exit 1; fi
command -v go >/dev/null || { echo "build.sh: Go 1.26 or later is needed to build helm; install it or leave these tests out" >&2; exit 1; }

mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites on one machine build once
if [ -x "$out/helm" ]; then echo "$out/helm"; exit 0; fi
echo "building helm" >&2
(cd "$here" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "-s -w" -o "$out/helm.new" helm.sh/helm/v4/cmd/helm >&2)
mv "$out/helm.new" "$out/helm"
echo "$out/helm"
