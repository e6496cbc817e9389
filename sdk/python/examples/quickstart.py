"""A worker that charges each order once, however often its message comes. Needs a server: `driftq serve`."""

import driftq

client = driftq.Client()  # DRIFTQ_SERVER, else http://127.0.0.1:8080
client.create_topic("orders")
worker = driftq.Worker(client, "billing")
charges: list[str] = []


@driftq.guarded("charge")
def charge_card(order: str, cents: int) -> dict[str, str]:
    charges.append(order)  # Here a payment provider would be called.
    return {"charge": f"ch_{len(charges)}"}


@worker.handler("orders")
def handle(order: dict[str, str], ctx: driftq.Context) -> None:
    receipt = charge_card(order["order"], 500)
    if ctx.attempt == 1:
        raise driftq.Retry(after=0.1, reason="the mail server is away")
    print(f"attempt {ctx.attempt}: {receipt}, charged {len(charges)} time(s)")
    worker.stop()


client.send("orders", {"order": "order-17"})
worker.run()
