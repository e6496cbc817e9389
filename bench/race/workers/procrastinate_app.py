"""procrastinate: jobs in PostgreSQL, taken with SKIP LOCKED and announced with NOTIFY. The guard is a unique row."""

import os

from guard import effect
from procrastinate import App, PsycopgConnector

URL = f"postgresql://race@127.0.0.1:{os.environ['RACE_PORT']}/postgres"
app = App(connector=PsycopgConnector(conninfo=URL, max_size=16))


@app.task(name="job")
async def job(name):
    if os.environ["RACE_GUARDED"] == "0":
        effect(name)
        return
    pool = app.connector.pool
    async with pool.connection() as connection:
        await connection.set_autocommit(True)
        begin = "INSERT INTO guard VALUES (%s, NULL) ON CONFLICT DO NOTHING RETURNING key"
        if await (await connection.execute(begin, (int(name),))).fetchone():
            effect(name)
        await connection.execute("UPDATE guard SET outcome = 'done' WHERE key = %s", (int(name),))
        await connection.set_autocommit(False)
