"""Sends requests to the service with redis-py, as its users do. Arguments: port, token. Prints JSON."""

import json
import sys

import redis

port, token = int(sys.argv[1]), sys.argv[2]
r = redis.Redis(port=port, password=token)
out = {}


def allow(pipe, key, *cost):
    pipe.execute_command("SG.ALLOW", "default", key, *cost)


with r.pipeline() as p:  # MULTI and EXEC
    for _ in range(3):
        allow(p, "a")
    out["pipeline"] = [answer[2] for answer in p.execute()]

with r.pipeline() as p:
    allow(p, "b")
    p.execute_command("NOSUCH")
    allow(p, "b")
    try:
        out["aborted"] = p.execute()
    except redis.exceptions.ExecAbortError as e:
        out["aborted"] = "EXECABORT"
    except redis.exceptions.ResponseError as e:
        out["aborted"] = "EXECABORT" if "unknown command" in str(e) else str(e)
out["b"] = r.execute_command("SG.PEEK", "default", "b")[2]

with r.pipeline() as p:
    allow(p, "c")
    p.execute_command("SG.ALLOW", "nobody", "c")
    allow(p, "c")
    out["mixed"] = [isinstance(answer, redis.exceptions.ResponseError) for answer in p.execute(raise_on_error=False)]

with r.pipeline(transaction=False) as p:
    for _ in range(3):
        allow(p, "d")
    out["plain"] = [answer[2] for answer in p.execute()]

with r.pipeline() as p:
    for _ in range(5000):
        allow(p, "e", 0)
    out["many"] = len(p.execute())

with r.pipeline() as p:
    try:
        p.watch("f")
        out["watch"] = "OK"
    except redis.exceptions.ResponseError as e:
        out["watch"] = "not supported" if "not supported" in str(e) else str(e)

with r.pipeline() as p:
    allow(p, "g")
    p.reset()
    out["reset"] = r.execute_command("SG.PEEK", "default", "g")[2]

json.dump(out, sys.stdout)
