//! A DNS server of a test's own, and the small client by which a connector asks it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_connect::deliver::target::{Resolve, Resolver, Resolving};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// By when the server has answered.
const WITHIN: Duration = Duration::from_secs(10);
/// Longest message over UDP without extensions.
const MESSAGE_BYTES_MAX: usize = 512;
/// The longest chain of names that is followed.
const CHAIN_MAX: usize = 8;
const HEADER_BYTES: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;
const CLASS_INTERNET: u16 = 1;
/// An answer, by a server that asks others if it has to.
const FLAGS_ANSWER: u16 = 0x8180;
const NO_SUCH_NAME: u16 = 3;

/// What a name has.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    Address(&'static str),
    /// Another name for it.
    Alias(&'static str),
}

/// What a server says of its names: from one resolution to the next, and the last of them from then on.
pub(crate) type Script = BTreeMap<&'static str, Vec<Vec<Record>>>;

/// A server, and what it was asked.
pub(crate) struct Dns {
    address: SocketAddr,
    questions: Arc<Mutex<Vec<(String, u16)>>>,
    task: JoinHandle<()>,
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Dns {
    pub(crate) async fn start(script: Script) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (address, questions) = (socket.local_addr().unwrap(), Arc::default());
        let asked = Arc::clone(&questions);
        let task = tokio::spawn(async move {
            let mut message = [0; MESSAGE_BYTES_MAX];
            while let Ok((count, peer)) = socket.recv_from(&mut message).await {
                let answer = answer(&message[..count], &script, &asked);
                socket.send_to(&answer, peer).await.unwrap();
            }
        });
        Self { address, questions, task }
    }

    /// How often it was asked for addresses of IPv4 and of IPv6.
    pub(crate) fn asked(&self) -> (usize, usize) {
        let questions = self.questions.lock().unwrap();
        let count = |wanted| questions.iter().filter(|(_, kind)| *kind == wanted).count();
        (count(TYPE_A), count(TYPE_AAAA))
    }

    /// By which a connector asks it.
    pub(crate) fn resolver(&self) -> Resolver {
        Resolver::Given(Arc::new(Stub(self.address)))
    }
}

/// Follows other names to their end, as the servers do that programs ask.
fn answer(question: &[u8], script: &Script, asked: &Mutex<Vec<(String, u16)>>) -> Vec<u8> {
    let (mut name, end) = read_name(question, HEADER_BYTES);
    let kind = number(question, end);
    let mut asked = asked.lock().unwrap();
    let before = asked.iter().filter(|earlier| **earlier == (name.clone(), kind)).count();
    asked.push((name.clone(), kind));
    let (mut records, mut count, mut is_known) = (Vec::new(), 0_u16, true);
    for _ in 0..CHAIN_MAX {
        let Some(answers) = script.get(&*name) else {
            is_known = false;
            break;
        };
        let mut next = None;
        for record in answers.get(before).or_else(|| answers.last()).into_iter().flatten() {
            let (found, data) = match record {
                Record::Alias(other) => {
                    next = Some((*other).to_owned());
                    (TYPE_CNAME, write_name(other))
                }
                Record::Address(text) => match text.parse().unwrap() {
                    IpAddr::V4(address) => (TYPE_A, address.octets().to_vec()),
                    IpAddr::V6(address) => (TYPE_AAAA, address.octets().to_vec()),
                },
            };
            if found == kind || found == TYPE_CNAME {
                records.extend(write_record(&name, found, &data));
                count += 1;
            }
        }
        let Some(next) = next else { break };
        name = next;
    }
    let flags = if is_known { FLAGS_ANSWER } else { FLAGS_ANSWER | NO_SUCH_NAME };
    let mut message = question[..2].to_vec();
    for part in [flags, 1, count, 0, 0] {
        message.extend(part.to_be_bytes());
    }
    message.extend(&question[HEADER_BYTES..end + 4]);
    message.extend(records);
    message
}

fn write_record(name: &str, kind: u16, data: &[u8]) -> Vec<u8> {
    let mut record = write_name(name);
    record.extend(kind.to_be_bytes());
    record.extend(CLASS_INTERNET.to_be_bytes());
    // Nobody may keep it: the next one asks again.
    record.extend(0_u32.to_be_bytes());
    record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    record.extend(data);
    record
}

fn write_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A name without pointers, and the place behind it.
fn read_name(message: &[u8], mut at: usize) -> (String, usize) {
    let mut labels = Vec::new();
    while message[at] > 0 {
        let end = at + 1 + usize::from(message[at]);
        labels.push(String::from_utf8(message[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    (labels.join("."), at + 1)
}

fn number(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

/// Asks the server as the resolver of a system does: once for each kind of address.
struct Stub(SocketAddr);

impl Resolve for Stub {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let mut found = self.ask(host, TYPE_A).await?;
            found.extend(self.ask(host, TYPE_AAAA).await?);
            Ok(found)
        })
    }
}

impl Stub {
    async fn ask(&self, host: &str, kind: u16) -> io::Result<Vec<IpAddr>> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(self.0).await?;
        let mut question = Vec::new();
        for part in [7_u16, 0x0100, 1, 0, 0, 0] {
            question.extend(part.to_be_bytes());
        }
        question.extend(write_name(host));
        question.extend(kind.to_be_bytes());
        question.extend(CLASS_INTERNET.to_be_bytes());
        socket.send(&question).await?;
        let mut message = [0; MESSAGE_BYTES_MAX];
        let count = timeout(WITHIN, socket.recv(&mut message)).await??;
        let message = &message[..count];
        if number(message, 2) != FLAGS_ANSWER {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such name"));
        }
        Ok(addresses(message, question.len()))
    }
}

/// All addresses behind the question.
fn addresses(message: &[u8], mut at: usize) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for _ in 0..number(message, 6) {
        let (_, end) = read_name(message, at);
        let (kind, data) = (number(message, end), end + 10);
        at = data + usize::from(number(message, end + 8));
        match kind {
            TYPE_A => found.push(Ipv4Addr::from(<[u8; 4]>::try_from(&message[data..at]).unwrap()).into()),
            TYPE_AAAA => found.push(Ipv6Addr::from(<[u8; 16]>::try_from(&message[data..at]).unwrap()).into()),
            _ => {}
        }
    }
    found
}
