#!/bin/sh
# check_wrapped.sh NM OBJECT ARCHIVE LIST...: every name of LIST is defined by the runtime of pthread programs as __wrap_NAME, or the program
# that has a variable or function of that name is not linked; and every __wrap_NAME that is defined is in a list of its folder, or no call comes there.
set -eu
nm=$1
object=$2
archive=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Those of function-local statics are wrapped with --shared-globals (cmake/braid-cc.in).
"$nm" "$object" "$archive" | sed -n '/ __wrap___cxa_guard_/d; s/^[0-9a-f]* [A-TV-Z] __wrap_//p' | sort -u >"$work/defined"
sort -u "$@" >"$work/listed"
sort -u "$(dirname "$1")"/wrapped*.txt >"$work/any"
missing=$(comm -13 "$work/defined" "$work/listed" | tr '\n' ' ')
uncalled=$(comm -23 "$work/defined" "$work/any" | tr '\n' ' ')
[ -z "$missing" ] || echo "$*: not defined as __wrap_NAME by dsm/pthreads, so take it out of the list or define it: $missing" >&2
[ -z "$uncalled" ] || echo "dsm/pthreads defines __wrap_NAME, which no call reaches: add it to wrapped.txt or take it out: $uncalled" >&2
[ -z "$missing$uncalled" ]
