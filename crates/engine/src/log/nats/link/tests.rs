//! What a link does that real servers must answer for.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use driftq_testbed::Nats;

use super::*;

/// How often the same is said before the server hears any of it.
const COPIES: usize = 3;
const SAID: &[u8] = b"HPUB word ";

/// Passes on what is said to a server. What is said from when it is held on is passed on at once when all copies are there.
/// Returns the port to say it to.
fn held_line(server: &str, is_held: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (mut there, is_held) = (TcpStream::connect(server).unwrap(), Arc::clone(is_held));
    thread::spawn(move || {
        let (mut here, _) = listener.accept().unwrap();
        let (mut from, mut to) = (there.try_clone().unwrap(), here.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let (mut said, mut waiting) = ([0; 4096], Vec::new());
        while let Ok(length @ 1..) = here.read(&mut said) {
            waiting.extend_from_slice(&said[..length]);
            let copies = waiting.windows(SAID.len()).filter(|window| *window == SAID).count();
            if is_held.load(Ordering::Acquire) && copies < COPIES {
                continue;
            }
            is_held.store(false, Ordering::Release);
            if there.write_all(&waiting).is_err() {
                return;
            }
            waiting.clear();
        }
    });
    port
}

#[test]
fn what_is_said_again_is_kept_once() {
    if let Err(why) = Nats::program() {
        return println!("skipped: {why}");
    }
    let server = Nats::start().unwrap();
    let url = server.url("words");
    let (servers, rest) = url["nats://".len()..].split_once('/').unwrap();
    let is_held = Arc::new(AtomicBool::new(false));
    let port = held_line(servers, &is_held);
    let link = Link::new(&Address::parse(&format!("nats://127.0.0.1:{port}/{rest}")).unwrap()).unwrap();
    let make = json!({"name": "words", "subjects": ["word"], "storage": "file"});
    link.call::<Value>("STREAM.CREATE.words", &make).unwrap();
    is_held.store(true, Ordering::Release);
    assert_eq!(link.tell("words", "word", &Expect::Nothing, &"alive".into()).unwrap(), 1);
    assert!(!is_held.load(Ordering::Acquire), "it was said too seldom");
    // A server hears in order what comes over one connection: this is behind all copies.
    assert_eq!(link.publish("words", "word", &Expect::Nothing, "next".into()).unwrap(), 2);
}
