#!/bin/sh
# Enqueues a job for hworker, with nothing but redis-cli.
#
#   enqueue.sh [--queue NAME] [--delay SECONDS] JOB ARGS
#
# ARGS is a JSON object with one member for each parameter of the job. The server is where HWORKER_REDIS_URL or REDIS_URL
# says: redis://[[user]:password@]host[:port][/db] or redis+unix:///path/to/socket. Prints the job's id.
#
# In a cluster the queue stands in braces: --queue '{default}'. Where others use the machine, leave the password out of the
# URL, which redis-cli has on its command line, and put it into REDISCLI_AUTH.
#
# The format is in docs/wire-format.md.
set -eu

die() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit 1
}

queue=default delay=
while [ $# -gt 2 ]; do
    case $1 in
        --queue) queue=$2 ;;
        --delay) delay=$2 ;;
        *) die "unknown option $1" ;;
    esac
    shift 2
done
[ $# -eq 2 ] || die 'say which job and its arguments: enqueue.sh send_welcome '\''{"to":"ada@example.org"}'\'
job=$1 args=$2
# What goes into the JSON as it stands must not end a string there.
case $job in *[!A-Za-z0-9._:-]* | '') die "a job is not called $job" ;; esac
case $args in '{'*'}') ;; *) die "the arguments are not a JSON object: $args" ;; esac
case $delay in *[!0-9]*) die "a delay is a whole number of seconds, not $delay" ;; esac

url=${HWORKER_REDIS_URL:-${REDIS_URL:-redis://127.0.0.1:6379}}
redis() {
    case $url in
        redis+unix://*) redis-cli -s "${url#redis+unix://}" "$@" ;;
        unix://*) redis-cli -s "${url#unix://}" "$@" ;;
        *) redis-cli -c -u "$url" "$@" ;;
    esac
}

# The answer of a command that gives numbers; anything else is an error, of which redis-cli only tells in words.
numbers() {
    answer=$(redis "$@" | tr '\n' ' ')
    case $answer in *[!0-9\ ]* | '') die "$1: ${answer:-no answer}" ;; esac
    printf '%s' "$answer"
}

id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
envelope='{"v":1,"id":"'$id'","job":"'$job'","args":'$args'}'
prefix=${HWORKER_PREFIX:-hworker}
if [ -z "$delay" ]; then
    numbers LPUSH "$prefix-jobs-$queue" "$envelope" >/dev/null
else
    now=$(numbers TIME)
    # shellcheck disable=SC2086 # two words: seconds and microseconds
    set -- $now
    due=$(($1 * 1000 + $2 / 1000 + delay * 1000))
    numbers ZADD "$prefix-scheduled-$queue" "$due" "$envelope" >/dev/null
fi
printf '%s\n' "$id"
