"""The peers, in the order of the table."""

from peer import Peer

from .beanstalkd import Beanstalkd
from .driftq import Bare, DriftQ
from .job_systems import BullMq, Celery, Procrastinate, Rq
from .nats_jetstream import Nats, NatsDefault
from .postgres import Postgres
from .rabbitmq import RabbitMq
from .redis_streams import Redis, RedisEverySecond
from .restate import Restate

BROKERS = (DriftQ, Redis, Nats, Postgres, RabbitMq, Beanstalkd, Restate)
JOB_SYSTEMS = (BullMq, Celery, Rq, Procrastinate)
# Servers that answer before the disk has it, for those who want to know what that is worth.
RELAXED = (RedisEverySecond, NatsDefault)

PEERS: dict[str, type[Peer]] = {peer.name: peer for peer in (*BROKERS, *JOB_SYSTEMS, *RELAXED, Bare)}
