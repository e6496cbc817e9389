"""The body of a job for the worker systems on Redis: the effect, with the guard that people write by hand."""

import functools
import os


@functools.cache
def keeper():
    import redis

    return redis.Redis(port=int(os.environ["RACE_PORT"]))


@functools.cache
def file():
    return os.open(os.environ["RACE_EFFECTS"], os.O_WRONLY | os.O_APPEND)


def effect(name):
    os.write(file(), f"{name}\n".encode())


def job_body(name):
    if os.environ["RACE_GUARDED"] == "0":
        effect(name)
        return
    if keeper().set(f"guard:{name}", "began", nx=True):
        effect(name)
    keeper().set(f"guard:{name}", "done")
