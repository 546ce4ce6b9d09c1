#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Run the tests (tests/run.sh --help).
exec python3 "$(dirname "$0")/run.py" "$@"
