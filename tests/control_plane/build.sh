#!/usr/bin/env bash
# Builds the programs of Kubernetes for tests from pinned Go modules. Each folder here is a version:
#   newest  the newest supported minor version, on which all tests run
#   oldest  the oldest, on which the part "oldest" of tests/run.py runs, and tests with KUBENODE_KUBERNETES=oldest
#   older_kubelet  a kubelet alone, from which tests upgrade
# With a control plane come etcd and kwok, the same for both (folder etcd). A version is renewed by its go.mod and go.sum.
# Nothing is built twice: the result is a folder outside the checkout, named by a hash of everything that decides it, and
# all versions share Go's own build cache. Prints that folder.
#   build.sh [VERSION]          build what is missing, print the folder; newest by default
#   build.sh --where [VERSION]  print the folder only; exit 1 if it is not complete
# KUBENODE_CACHE_DIR chooses the parent folder (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
only_where=; [ "${1:-}" != --where ] || { only_where=yes; shift; }
name=${1:-newest}
[ -f "$here/$name/go.mod" ] && [ "$name" != etcd ] || { echo "build.sh: no version \"$name\": newest, oldest or older_kubelet" >&2; exit 2; }
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit } $1 == "require" && $2 == "k8s.io/kubernetes" { print $3; exit }' "$here/$name/go.mod")
minor=$(echo "$version" | cut -d. -f2)
key=$(cat "$here"/build.sh "$here"/{"$name",etcd}/go.{mod,sum} | sha256sum | cut -c1-16)
parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
out=$parent/kubernetes-$version-$key
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
if [ -n "$only_where" ]; then echo "$out"; exit 1; fi
command -v go >/dev/null || { echo "build.sh: Go 1.26 or later is needed to build Kubernetes; install it or leave these tests out" >&2; exit 1; }

mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites on one machine build once
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
export CGO_ENABLED=0
stamp="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
cd "$here/$name"
echo "building Kubernetes $version" >&2
# All tools of its go.mod at once: their compilations overlap.
go list tool | xargs go build -mod=readonly -trimpath -ldflags "$stamp" -o "$out/" >&2
if [ -e "$out/kube-apiserver" ]; then
  cd "$here/etcd"
  echo "building etcd and kwok" >&2
  go build -mod=readonly -trimpath -ldflags "-s -w" -o "$out/etcd" go.etcd.io/etcd/server/v3 >&2
  go build -mod=readonly -trimpath -ldflags "-s -w" -o "$out/kwok" sigs.k8s.io/kwok/cmd/kwok >&2
  # kwok ends at once without stages; they ship as files of its module, not inside the binary.
  stages=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  mkdir -p "$out/stages"
  cp -f "$stages"/node/fast/node-*.yaml "$stages"/node/heartbeat-with-lease/node-*.yaml "$stages"/pod/fast/pod-*.yaml "$out/stages/"
  chmod -R u+w "$out/stages"
fi
touch "$out/complete"
echo "$out"
