#!/usr/bin/env bash
# Runs a make target against a kind cluster: on-kind.sh VERSION TARGET, for example on-kind.sh v1.34.0 test-integration.
#
# The manager under test is a process of this machine, and the API server calls it at 127.0.0.1. So the target runs in the
# network of the node that the API server runs on. Needs kind, docker, kubectl, helm, sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 target=$2
kubeconfig=$(mktemp)
trap 'kind delete cluster --name lws; rm -f "$kubeconfig"' EXIT
# Before, because that network has no way to resolve the names of package indices.
make .venv/.ready
kind create cluster --name lws --image "kindest/node:$version" --config .github/kind.yaml --wait 5m
kind get kubeconfig --name lws --internal | sed 's#server: https://.*#server: https://127.0.0.1:6443#' > "$kubeconfig"
node=$(docker inspect --format '{{.State.Pid}}' lws-control-plane)
sudo nsenter --target "$node" --net -- \
  sudo --user "$(id -un)" env PATH="$PATH" KUBECONFIG="$kubeconfig" CLUSTER=existing make "$target"
