#!/usr/bin/env bash
# openspiel-SFT-trainer.sh by another name; it can be sourced too.
bash "$(dirname -- "${BASH_SOURCE[0]}")/openspiel-SFT-trainer.sh" "$@"
