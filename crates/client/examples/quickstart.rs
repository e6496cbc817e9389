//! From the connection to a charge that happens once: `cargo run -p driftq-client --example quickstart`.

use driftq_client::{Client, Failure, Worker, json};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
    cents: u64,
}

async fn charge(order: &Order) -> Result<String, std::io::Error> {
    println!("charging {} cents for {}", order.cents, order.id); // here you would call your payment provider
    Ok(format!("ch_{}", order.id))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = Client::connect()?;
    client.create_topic("orders", &Default::default()).await?;
    client.create_topic("receipts", &Default::default()).await?;
    client.produce("orders", json(&Order { id: "order-17".to_owned(), cents: 500 })).await?;
    let worker = Worker::new(&client, "billing").handle("orders", |order: Order, context| async move {
        let id = context.effect("charge").key(&order.id).run(|| async { Ok(charge(&order).await?) }).await?;
        Ok(context.send("receipts", json(&id))?) // goes out with the ack, both or none
    });
    Ok(worker.run().await?) // until Ctrl-C
}
