"""Celery as its manual says: acks after the work, everything else as it comes."""

import os

from celery import Celery
from guard import job_body

app = Celery("celery_app", broker=f"redis://127.0.0.1:{os.environ['RACE_PORT']}/0")
app.conf.update(task_acks_late=True, task_ignore_result=True, broker_connection_retry_on_startup=True)


@app.task
def job(name):
    job_body(name)
