#!/usr/bin/env bash
# merge-ppo.sh by another name; it can be sourced too.
bash "$(dirname -- "${BASH_SOURCE[0]}")/merge-ppo.sh" "$@"
