"""The peers, in the order of the table."""

from peer import Peer

from .driftq import Bare, DriftQ
from .redis_streams import Redis, RedisEverySecond

PEERS: dict[str, type[Peer]] = {
    peer.name: peer
    for peer in (DriftQ, Bare, Redis, RedisEverySecond)
}
