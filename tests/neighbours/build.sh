#!/usr/bin/env bash
# Builds a controller of another project that tests run beside KubeNode, from pinned Go modules, with the manifests of the
# same version. Nothing is built twice: it lies outside the checkout, in a folder named by a hash of what decides it.
#   build.sh clusterapi   the core manager of Cluster API, and its kustomization in config/
#   build.sh karpenter    Karpenter with its kwok provider, and its CRDs in crds/
#   build.sh --where NAME print the folder only; exit 1 if it is not complete
# KUBENODE_CACHE_DIR chooses the parent folder (default: $XDG_CACHE_HOME/kubenode or ~/.cache/kubenode).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
only_where=
if [ "${1:-}" = --where ]; then only_where=1; shift; fi
name=${1:-}
case $name in
  clusterapi) module=sigs.k8s.io/cluster-api package=core ;;
  karpenter) module=sigs.k8s.io/karpenter package=kwok ;;
  *) echo "build.sh: \"$name\" is no controller; name clusterapi or karpenter" >&2; exit 1 ;;
esac
key=$(cat "$here"/build.sh "$here/$name"/go.mod "$here/$name"/go.sum | sha256sum | cut -c1-16)
parent=${KUBENODE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kubenode}
out=$parent/$name-$key
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
if [ -n "$only_where" ]; then echo "$out"; exit 1; fi
command -v go >/dev/null || { echo "build.sh: Go 1.26 or later is needed to build $name; install it or leave these tests out" >&2; exit 1; }

mkdir -p "$out"
exec 9>"$out/lock"
flock 9 # two suites on one machine build once
if [ -e "$out/complete" ]; then echo "$out"; exit 0; fi
cd "$here/$name"
export CGO_ENABLED=0 GOFLAGS=-mod=readonly
go mod download "$module"
read -r version source < <(go list -m -f '{{.Version}} {{.Dir}}' "$module")
IFS=.- read -r major minor _ <<<"${version#v}"
flags="-s -w -X $module/version.gitVersion=$version -X $module/version.gitMajor=$major -X $module/version.gitMinor=$minor -X $module/version.gitTreeState=clean"
echo "building $name $version" >&2
go build -trimpath -ldflags "$flags" -o "$out/$name" "$module/$package" >&2
rm -rf "$out/config" "$out/crds" # of a build that was interrupted
case $name in
  clusterapi) cp -r "$source/core/config" "$out/config" ;;
  karpenter) mkdir "$out/crds" && cp "$source"/pkg/apis/crds/*.yaml "$source"/kwok/apis/crds/*.yaml "$out/crds/" ;;
esac
chmod -R u+w "$out"
touch "$out/complete"
echo "$out"
