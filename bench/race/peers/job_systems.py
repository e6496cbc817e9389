"""Systems that run jobs, with worker programs of their own: on the same synced Redis, or on the same PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from kit import HERE, Missing, Process, forked

from .postgres import Postgres
from .redis_streams import Redis

FOLDER = HERE / "workers"
LOAD_S = 60.0


class Jobs:
    """What they share: how they are loaded, and how their program is started."""

    rows = ("jobs", "guarded")
    package = ""

    def install(self) -> str:
        super().install()
        try:
            return f"{self.title} {metadata.version(self.package)}"
        except metadata.PackageNotFoundError:
            raise Missing(f"PyPI's {self.package} is not installed") from None

    def prepare(self) -> None:
        """They make their own queues."""

    def environment(self, is_guarded: bool = False, effects: Path | None = None) -> dict[str, str]:
        paths = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
        given = {"RACE_PORT": self.port, "RACE_GUARDED": int(is_guarded), "RACE_EFFECTS": effects or ""}
        return {"PYTHONPATH": paths} | {name: str(value) for name, value in given.items()}

    def load(self, queue: str, count: int) -> None:
        self.inside(lambda: self.enqueue(queue, count))

    def inside(self, task: Callable[[], None]) -> None:
        """Runs it where the modules of the workers can be imported, and their settings are known."""

        def child() -> None:
            os.environ.update(self.environment())
            sys.path.insert(0, str(FOLDER))
            task()

        forked([child], LOAD_S)

    def enqueue(self, queue: str, count: int) -> None:
        raise NotImplementedError

    def command(self, queue: str) -> list[str]:
        raise NotImplementedError

    def worker(self, queue: str, is_guarded: bool, effects: Path) -> Process:
        return Process(self.command(queue), self.folder / "worker.log", self.environment(is_guarded, effects))


class Celery(Jobs, Redis):
    name, title, package = "celery", "Celery", "celery"
    settings = (*Redis.shown(), "celery worker, prefork, a process per core; task_acks_late")
    client = "its own worker; the guard is a key in the same Redis"
    most_jobs = 1000

    def enqueue(self, queue: str, count: int) -> None:
        import celery_app

        for number in range(count):
            celery_app.job.apply_async((str(number),), queue=queue)

    def command(self, queue: str) -> list[str]:
        return [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-Q", queue, "--loglevel", "ERROR"]


class Rq(Jobs, Redis):
    name, title, package = "rq", "rq", "rq"
    settings = (*Redis.shown(), "rq worker-pool with 2 workers, which fork for every job")
    client = "its own worker; the guard is a key in the same Redis"
    most_jobs = 200

    def enqueue(self, queue: str, count: int) -> None:
        import redis
        import rq

        names = rq.Queue(queue, connection=redis.Redis(port=self.port))
        names.enqueue_many([rq.Queue.prepare_data("guard.job_body", (str(number),)) for number in range(count)])

    def command(self, queue: str) -> list[str]:
        place = ["--url", f"redis://127.0.0.1:{self.port}"]
        return [sys.executable, "-m", "rq.cli", "worker-pool", queue, "-n", "2", "--logging-level", "ERROR", *place]


class Procrastinate(Jobs, Postgres):
    name, title, package = "procrastinate", "procrastinate", "procrastinate"
    settings = (*Postgres.settings[:2], "procrastinate worker --concurrency 64, a pool of 16 connections")
    client = "its own worker; the guard is a unique row"
    most_jobs = 1000
    note = "jobs in PostgreSQL by SKIP LOCKED and NOTIFY, as River does it for Go"

    def prepare(self) -> None:
        Postgres.prepare(self)
        self.inside(lambda: self.with_app(lambda app: app.schema_manager.apply_schema()))

    def with_app(self, use: Callable) -> None:
        import procrastinate
        import procrastinate_app

        connector = procrastinate.SyncPsycopgConnector(conninfo=self.url)
        with procrastinate_app.app.replace_connector(connector) as app, app.open():
            use(app)

    def enqueue(self, queue: str, count: int) -> None:
        jobs = [{"name": str(number)} for number in range(count)]
        self.with_app(lambda app: app.tasks["job"].configure(queue=queue).batch_defer(*jobs))

    def command(self, queue: str) -> list[str]:
        words = ["--app", "procrastinate_app.app", "worker", "--queues", queue, "--concurrency", "64"]
        return [sys.executable, "-m", "procrastinate", *words]


class BullMq(Jobs, Redis):
    name, title = "bullmq", "BullMQ"
    most_jobs = 2000
    settings = (*Redis.shown(), "a Worker with concurrency 64 in Node.js")
    client = "its own worker; the guard is a key in the same Redis"

    def install(self) -> str:
        Redis.install(self)
        self.node = self.tools.node()
        if not shutil.which("node"):
            raise Missing("needs Node.js on the PATH")
        words = ["node", "-p", f"require('{self.node}/node_modules/bullmq/package.json').version"]
        return f"BullMQ {subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()}"

    def environment(self, is_guarded: bool = False, effects: Path | None = None) -> dict[str, str]:
        return super().environment(is_guarded, effects) | {"RACE_NODE": str(self.node)}

    def load(self, queue: str, count: int) -> None:
        words = [*self.command(queue, "load"), str(count)]
        subprocess.run(words, env=os.environ | self.environment(), check=True, timeout=LOAD_S, capture_output=True)

    def command(self, queue: str, task: str = "work") -> list[str]:
        return ["node", str(FOLDER / "bullmq.cjs"), task, queue]
