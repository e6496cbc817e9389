//! The real binary with its log in JetStream: killed, restarted, taken over; and when a server of NATS is lost.

use std::path::Path;
use std::sync::LazyLock;

use driftq_testbed::Nats;

use crate::cluster::{hands_over_when_drained, is_replaced_when_killed, node};
use crate::command::run;
use crate::postgres_failover::survives_fail_over;
use crate::postgres_log::{is_taken_over, survives_kill_9};
use crate::support::Server;

static SERVER: LazyLock<Nats> = LazyLock::new(|| Nats::start().unwrap());

/// Whether there is a program to test with; if not, the reason is told.
fn is_there() -> bool {
    Nats::program().inspect_err(|why| println!("skipped: {why}")).is_ok()
}

fn server(stream: &str) -> Server {
    let nowhere = Path::new("/nonexistent/driftq-data");
    Server::start(nowhere, &["--log", &SERVER.url(stream), "--in-flight-max", "2000"])
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    if is_there() {
        survives_kill_9(|| {
            let server = server("killed");
            assert!(server.banner.contains("NATS JetStream"), "{}", server.banner);
            server
        });
    }
}

#[test]
fn a_second_server_takes_over_and_the_first_takes_nothing_more() {
    if is_there() {
        is_taken_over(|| server("shared"));
    }
}

/// The server that leads the stream is killed under producers; the two others go on.
#[test]
fn nothing_acknowledged_is_lost_when_the_leader_of_the_stream_is_killed() {
    if is_there() {
        let cluster = Nats::cluster().unwrap();
        survives_fail_over(&cluster.url("led"), || cluster.kill(cluster.leader("led").unwrap()).unwrap());
    }
}

#[test]
fn one_of_three_servers_serves_and_another_takes_over() {
    if is_there() {
        is_replaced_when_killed(|| node(&["--log", &SERVER.url("cluster_killed")]));
        hands_over_when_drained(|| node(&["--log", &SERVER.url("cluster_drained")]));
    }
}

#[test]
fn what_is_meant_for_a_database_is_refused() {
    let refused = run(&["serve", "--log", "nats://127.0.0.1:1/q", "--log-schema", "mine"]);
    assert!(refused.code != 0 && refused.stderr.contains("there is no schema in NATS"), "{}", refused.stderr);
    let refused = run(&["migrate", "--from", "nats://127.0.0.1:1/q", "--to", "/nonexistent/q"]);
    assert!(refused.code != 0 && refused.stderr.contains("NATS cannot be reached"), "{}", refused.stderr);
    assert!(refused.stderr.contains("check host and port"), "{}", refused.stderr);
}
