# shellcheck shell=bash
# Sourced by the scripts that run before any Python does.

# from_dotenv FILE NAME...: give variables that the shell does not have their values of a file, which is not executed.
# PYTHON_DOTENV_DISABLED=1 leaves the file unread, as it does in Python.
from_dotenv() {
    local file=$1 name value
    shift
    [ -r "$file" ] && [[ ! ${PYTHON_DOTENV_DISABLED:-} =~ ^(1|t|true|y|yes)$ ]] || return 0
    for name in "$@"; do
        [ -z "${!name+set}" ] || continue
        value=$(sed -nE "s/^[[:space:]]*(export[[:space:]]+)?${name}[[:space:]]*=[[:space:]]*//p" "$file" | tail -n 1 |
            sed -E "s/^\"([^\"]*)\".*\$/\\1/; t; s/^'([^']*)'.*\$/\\1/; t; s/(^|[[:space:]])#.*\$//; s/[[:space:]]+\$//")
        [ -z "$value" ] || printf -v "$name" %s "$value"
    done
}
