"""The peers, in the order of the table."""

from peer import Peer

from .beanstalkd import Beanstalkd
from .driftq import Bare, DriftQ
from .nats_jetstream import Nats, NatsDefault
from .postgres import Postgres
from .rabbitmq import RabbitMq
from .redis_streams import Redis, RedisEverySecond

PEERS: dict[str, type[Peer]] = {
    peer.name: peer
    for peer in (DriftQ, Redis, Nats, Postgres, RabbitMq, Beanstalkd, RedisEverySecond, NatsDefault, Bare)
}
