//! Two servers on one log, whatever engine keeps it.

use driftq_engine::{Broker, Config, Failure, Storage};

use crate::common::{ack_of, config, next, reader, soon, text, until, value};

async fn started(storage: &Storage) -> Broker {
    let config = Config { storage: storage.clone(), ..config() };
    let starting = tokio::task::spawn_blocking(move || Broker::start(config));
    soon(starting).await.unwrap().unwrap().broker
}

/// The first server is not rebuilt over and over: it says who has the log, and stays down.
pub(crate) async fn a_second_server_takes_over_and_the_first_steps_down(storage: Storage) {
    let first = started(&storage).await;
    first.create_topic("t", 1).await.unwrap();
    for n in 0..50 {
        soon(first.produce("t", text(&n.to_string()))).await.unwrap();
    }
    let second = started(&storage).await;
    let refused = soon(first.produce("t", text("lost"))).await;
    let Err(Failure::Unavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("taken over"), "{why}");
    until("the first is down", async || !first.status().ready).await;
    let status = first.status();
    assert!(status.why.as_ref().is_some_and(|why| why.contains("taken over")), "{status:?}");
    soon(second.produce("t", text("50"))).await.unwrap();
    let refused = soon(first.produce("t", text("lost"))).await;
    assert!(matches!(refused, Err(Failure::Unavailable(_))), "{refused:?}");
    assert_eq!((first.counters().rebuilds, second.status().epoch), (0, 2));
    soon(first.stop()).await;
    soon(second.stop()).await;
    let third = started(&storage).await;
    let mut stream = third.consume(reader("t", "g")).await.unwrap();
    for n in 0..=50 {
        let delivered = next(&mut stream).await;
        assert_eq!(value(&delivered), n.to_string());
        soon(third.ack(ack_of("t", "g", &delivered))).await.unwrap();
    }
    drop(stream);
    soon(third.stop()).await;
}
