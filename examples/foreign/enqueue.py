#!/usr/bin/env python3
"""Enqueues a job for hworker, with nothing but Python's standard library.

    enqueue.py [--queue NAME] [--delay SECONDS] JOB ARGS

ARGS is a JSON object with one member for each parameter of the job. The server is where HWORKER_REDIS_URL or REDIS_URL
says: redis://[[user]:password@]host[:port][/db] or redis+unix:///path/to/socket. Prints the job's id.

In a cluster the queue stands in braces, --queue '{default}', and the URL is that of the server that has it.

The format is in docs/wire-format.md.
"""

import argparse
import json
import os
import socket
import time
import urllib.parse
import uuid


class Redis:
    """A connection that speaks just enough of the Redis protocol."""

    def __init__(self, url):
        url = urllib.parse.urlsplit(url)
        if url.scheme in ("redis+unix", "unix"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(5)
            self.socket.connect(urllib.parse.unquote(url.path))
            database = ""
        elif url.scheme == "redis":
            self.socket = socket.create_connection((url.hostname or "127.0.0.1", url.port or 6379), timeout=5)
            database = url.path.strip("/")
        else:
            raise ValueError(f"this example does not speak {url.scheme}://")
        self.replies = self.socket.makefile("rb")
        if url.password:
            secrets = [part for part in (url.username, url.password) if part]
            self.call("AUTH", *map(urllib.parse.unquote, secrets))
        if database:
            self.call("SELECT", database)

    def call(self, *words):
        words = [str(word).encode() for word in words]
        request = b"*%d\r\n" % len(words)
        request += b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(request)
        return self._reply()

    def _reply(self):
        line = self.replies.readline()
        if not line.endswith(b"\r\n"):
            # What was sent may have been executed all the same.
            raise ConnectionError("the connection broke before the answer")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        return rest


def enqueue(redis, job, args, queue="default", delay=None, prefix="hworker"):
    """Enqueues a job, in `delay` seconds if that is given, and returns its id."""
    job_id = str(uuid.uuid4())
    envelope = {"v": 1, "id": job_id, "job": job, "args": args, "enqueued_at": int(time.time() * 1000)}
    # Floats that JSON does not have are an error here, not in the worker.
    envelope = json.dumps(envelope, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    if delay is None:
        redis.call("LPUSH", f"{prefix}-jobs-{queue}", envelope)
    else:
        seconds, microseconds = map(int, redis.call("TIME"))
        due = seconds * 1000 + microseconds // 1000 + int(delay * 1000)
        redis.call("ZADD", f"{prefix}-scheduled-{queue}", due, envelope)
    return job_id


def main():
    parser = argparse.ArgumentParser(description="Enqueues a job for hworker.")
    parser.add_argument("--queue", default="default")
    parser.add_argument("--delay", type=float, metavar="SECONDS")
    parser.add_argument("job")
    parser.add_argument("args", type=json.loads, metavar="ARGS")
    options = parser.parse_args()
    if not isinstance(options.args, dict):
        parser.error("ARGS is a JSON object with one member for each parameter of the job")
    url = os.environ.get("HWORKER_REDIS_URL") or os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379"
    prefix = os.environ.get("HWORKER_PREFIX") or "hworker"
    print(enqueue(Redis(url), options.job, options.args, options.queue, options.delay, prefix))


if __name__ == "__main__":
    main()
