"""Restate's services. A step of `ctx.run` is its own guard: once its outcome is stored, it is not run again."""

import os

import restate

HOW = os.O_CREAT | os.O_WRONLY | os.O_APPEND
FILES = [os.open(f"{os.environ['RACE_FOLDER']}/effects-{name}", HOW) for name in (0, 1)]
service = restate.Service("race")


def effect(file, ctx):
    os.write(file, f"{ctx.request().id}\n".encode())


@service.handler()
async def race(ctx: restate.Context, _payload: str) -> None:
    return


@service.handler()
async def jobs(ctx: restate.Context, _payload: str) -> None:
    effect(FILES[0], ctx)


@service.handler()
async def guarded(ctx: restate.Context, _payload: str) -> None:
    await ctx.run("effect", lambda: effect(FILES[1], ctx))


app = restate.app([service])
