//! Records of effects in as few bytes as possible: there may be millions, and most are over and only remembered.
//!
//! Small numbers take one byte, times are stored relative to one another, and each owner's name is stored once for all
//! its records. The bytes never leave the memory of the shard: snapshots have a format of their own.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ledger::OnLapse;
use crate::log::effect::{put_receipt, status_byte, status_of, take_receipt};
use crate::state::effect::record::Effect;
use crate::words::blob::Blob;
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Identity, Position, RequestHash, Spotted, Time, TopicId};

/// Records of one chunk: as many as there are bits in [`Chunk::present`].
const CHUNK_RECORDS: u64 = 64;
/// A chunk grows by this many bytes at a time, so that little of it is empty. Only the newest, which all new records go to,
/// has room for those still to come, if they are as long as those that it has.
const GROWTH_BYTES: usize = 256;
/// A chunk gives room back that is larger than this.
const SLACK_BYTES: usize = 1024;

/// Records by number, packed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    /// By number divided by [`CHUNK_RECORDS`]; none is empty.
    chunks: BTreeMap<u64, Chunk>,
    len: usize,
    owners: Owners,
    /// Room for a record on its way into its chunk, used again for the next one.
    draft: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// Which of its numbers have a record.
    present: u64,
    /// Where each record ends, in the order of their numbers.
    ends: Vec<u16>,
    /// The records in the same order.
    bytes: Vec<u8>,
}

impl Chunk {
    /// How many records lie before the one with this bit.
    const fn rank(&self, bit: u32) -> usize {
        (self.present & ((1 << bit) - 1)).count_ones() as usize
    }

    const fn has(&self, bit: u32) -> bool {
        self.present >> bit & 1 != 0
    }

    /// Where a record begins that has so many before it.
    fn start(&self, rank: usize) -> usize {
        rank.checked_sub(1).map_or(0, |before| usize::from(self.ends[before]))
    }

    fn get(&self, bit: u32) -> Option<&[u8]> {
        let rank = self.rank(bit);
        let end = usize::from(*self.ends.get(rank)?);
        if self.has(bit) { self.bytes.get(self.start(rank)..end) } else { None }
    }

    /// All records with their bits, in order.
    fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let bits = (0..CHUNK_RECORDS).filter(|bit| self.present >> bit & 1 != 0);
        let records = self.ends.iter().scan(0, |start, end| {
            let record = self.bytes.get(core::mem::replace(start, usize::from(*end))..usize::from(*end));
            Some(record.unwrap_or_default())
        });
        bits.zip(records)
    }

    /// Puts other bytes in the place of a record.
    fn put(&mut self, bit: u32, record: &[u8], is_newest: bool) {
        let rank = self.rank(bit);
        let start = self.start(rank);
        let to_come = if is_newest { self.present.leading_zeros() as usize } else { 0 };
        if !self.has(bit) {
            if self.ends.len() == self.ends.capacity() {
                self.ends.reserve_exact(to_come.max(1));
            }
            self.ends.insert(rank, start as u16);
            self.present |= 1 << bit;
        }
        self.replace(rank, record, to_come);
    }

    fn remove(&mut self, bit: u32) {
        if self.has(bit) {
            let rank = self.rank(bit);
            self.replace(rank, &[], 0);
            self.ends.remove(rank);
            self.present &= !(1 << bit);
        }
    }

    /// `to_come`: how many records more it may get.
    fn replace(&mut self, rank: usize, record: &[u8], to_come: usize) {
        let (start, end) = (self.start(rank), usize::from(self.ends[rank]));
        let new_end = start + record.len();
        let (bytes, new_bytes) = (self.bytes.len(), self.bytes.len() + new_end - end);
        assert!(new_bytes <= usize::from(u16::MAX), "64 packed records are far below 64 KiB");
        if new_bytes > self.bytes.capacity() {
            let ahead = (new_bytes / self.ends.len() * to_come).min(usize::from(u16::MAX));
            self.bytes.reserve_exact(new_bytes - bytes + ahead.max(GROWTH_BYTES));
        }
        self.bytes.resize(new_bytes.max(bytes), 0);
        self.bytes.copy_within(end..bytes, new_end);
        self.bytes.truncate(new_bytes);
        self.bytes[start..new_end].copy_from_slice(record);
        let grown = (new_end as u16).wrapping_sub(end as u16);
        for end in &mut self.ends[rank..] {
            *end = end.wrapping_add(grown);
        }
        if to_come == 0 {
            self.trim();
        }
    }

    /// Gives room back that is not needed.
    fn trim(&mut self) {
        if self.bytes.capacity() - self.bytes.len() > SLACK_BYTES {
            self.bytes.shrink_to(self.bytes.len() + GROWTH_BYTES);
        }
    }
}

/// Chunk and bit of a number.
const fn place(number: u64) -> (u64, u32) {
    (number / CHUNK_RECORDS, (number % CHUNK_RECORDS) as u32)
}

impl Packed {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self, number: u64) -> Option<&[u8]> {
        let (chunk, bit) = place(number);
        self.chunks.get(&chunk)?.get(bit)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Effect> {
        self.unpack(self.bytes(number)?)
    }

    /// Whose record has this number.
    pub(crate) fn identity(&self, number: u64) -> Option<Identity> {
        self.bytes(number)?.first_chunk().copied().map(Identity)
    }

    /// All records, oldest first, beginning with a number.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = (u64, Effect)> {
        let chunks = self.chunks.range(place(number).0..);
        let records = chunks.flat_map(|(start, chunk)| {
            chunk.records().map(move |(bit, record)| (start * CHUNK_RECORDS + bit, record))
        });
        let records = records.skip_while(move |(found, _)| *found < number);
        records.filter_map(|(number, record)| Some((number, self.unpack(record)?)))
    }

    /// Puts a record in the place of whatever was there.
    pub(crate) fn put(&mut self, number: u64, effect: &Effect) {
        let (start, bit) = place(number);
        let newest = self.chunks.last_entry().map_or(start, |mut newest| {
            if *newest.key() < start {
                // It gets no more records.
                newest.get_mut().trim();
            }
            *newest.key()
        });
        let chunk = self.chunks.entry(start).or_default();
        let before = chunk.get(bit).and_then(owner_of);
        let owner = match before {
            Some(before) if self.owners.is_named(before, &effect.owner) => before,
            // Named before the old one lets go.
            _ => self.owners.enter(&effect.owner),
        };
        match before {
            None => self.len += 1,
            Some(before) if before == owner => {}
            Some(before) => self.owners.leave(before),
        }
        self.draft.clear();
        pack(&mut self.draft, effect, owner);
        chunk.put(bit, &self.draft, newest <= start);
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Effect> {
        let bytes = self.bytes(number)?;
        let (effect, owner) = (self.unpack(bytes), owner_of(bytes));
        let (start, bit) = place(number);
        let chunk = self.chunks.get_mut(&start)?;
        chunk.remove(bit);
        if chunk.present == 0 {
            self.chunks.remove(&start);
        }
        if let Some(owner) = owner {
            self.owners.leave(owner);
        }
        self.len -= 1;
        effect
    }

    fn unpack(&self, bytes: &[u8]) -> Option<Effect> {
        let unpacked = unpack(bytes, &self.owners);
        debug_assert!(unpacked.is_ok(), "a record that was packed here is read back");
        unpacked.ok()
    }
}

/// Names of owners that have or had a lease, each once.
#[derive(Clone, Debug, Default)]
struct Owners {
    /// By number; with how many records name it.
    names: Vec<(Arc<str>, u64)>,
    numbers: BTreeMap<Arc<str>, u32>,
    /// Numbers that no record uses any more.
    free: Vec<u32>,
}

impl Owners {
    /// The number of a name for one record more.
    fn enter(&mut self, name: &Arc<str>) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            self.names[number as usize].1 += 1;
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push((Arc::default(), 0));
            u32::try_from(self.names.len() - 1).expect("owners are no more than records")
        });
        self.names[number as usize] = (Arc::clone(name), 1);
        self.numbers.insert(Arc::clone(name), number);
        number
    }

    fn is_named(&self, number: u32, name: &Arc<str>) -> bool {
        self.names.get(number as usize).is_some_and(|(known, _)| known == name)
    }

    /// One record less names it.
    fn leave(&mut self, number: u32) {
        let Some((name, records)) = self.names.get_mut(number as usize) else { return };
        *records -= 1;
        if *records == 0 {
            let name = core::mem::take(name);
            self.numbers.remove(&name);
            self.free.push(number);
        }
    }

    fn name(&self, number: u32) -> Arc<str> {
        self.names.get(number as usize).map_or_else(Arc::default, |(name, _)| Arc::clone(name))
    }
}

/// The owner that a packed record names: its number lies behind the identity, so that it is found without the rest.
fn owner_of(bytes: &[u8]) -> Option<u32> {
    let mut take = Take::new(bytes.get(size_of::<Identity>()..)?, WHAT);
    take_short(&mut take).ok()
}

/// What reading a broken record would report; there is none.
const WHAT: &str = "packed effect";

/// Every field is named, so that a new one is not forgotten here.
fn pack(out: &mut Vec<u8>, effect: &Effect, owner_number: u32) {
    let Effect {
        identity,
        request,
        status,
        on_lapse,
        epoch,
        attempts,
        attempts_max,
        tenant,
        scope,
        about,
        ending,
        digest,
        caller,
        created,
        begun,
        until,
        ended,
        ttl_ms,
        owner: _,
        tie,
        message,
        run,
        released,
        raised,
        delivery,
    } = effect;
    out.extend_from_slice(&identity.0);
    put_long(out, u64::from(owner_number));
    out.put_u8(status_byte(*status) | u8::from(*raised) << 6 | u8::from(*released) << 7);
    let given = [
        *on_lapse == OnLapse::Hold,
        attempts_max.is_some(),
        ending.is_some(),
        tie.is_some(),
        message.is_some(),
        *request != RequestHash::NONE,
        *digest != 0,
        *caller != 0,
    ];
    out.put_u8(given.iter().enumerate().fold(0, |bits, (bit, given)| bits | u8::from(*given) << bit));
    // Hashes do not get shorter; each is written only if it is there.
    for hash in [request.0, *digest, *caller].into_iter().filter(|hash| *hash != 0) {
        out.put_u64(hash);
    }
    out.put_u32(*tenant);
    out.put_u32(*scope);
    for short in [Some(*epoch), Some(*attempts), *attempts_max].into_iter().flatten() {
        put_long(out, u64::from(short));
    }
    for long in [*run, u64::from(*delivery), *ttl_ms, created.0] {
        put_long(out, long);
    }
    put_apart(out, *begun, *created);
    put_apart(out, *until, *begun);
    put_apart(out, *ended, *begun);
    for blob in [Some(*about), *ending].into_iter().flatten() {
        put_blob(out, blob);
    }
    if let Some(tie) = tie {
        put_receipt(out, tie);
    }
    for long in message.iter().flat_map(|at| [u64::from(at.topic.0), u64::from(at.partition), at.offset]) {
        put_long(out, long);
    }
}

fn unpack(bytes: &[u8], owners: &Owners) -> Result<Effect, Malformed> {
    let mut take = Take::new(bytes, WHAT);
    let take = &mut take;
    let identity = take.identity()?;
    let owner = owners.name(take_short(take)?);
    let status = take.u8()?;
    let (raised, released) = (status >> 6 & 1 != 0, status >> 7 != 0);
    let status = status_of(status & 0x3f, take)?;
    let given = take.u8()?;
    let given = |bit: u8| given >> bit & 1 != 0;
    let request = RequestHash(if given(5) { take.u64()? } else { 0 });
    let digest = if given(6) { take.u64()? } else { 0 };
    let caller = if given(7) { take.u64()? } else { 0 };
    let (tenant, scope) = (take.u32()?, take.u32()?);
    let (epoch, attempts) = (take_short(take)?, take_short(take)?);
    let attempts_max = if given(1) { Some(take_short(take)?) } else { None };
    let (run, delivery, ttl_ms) = (take_long(take)?, take_short(take)?, take_long(take)?);
    let created = Time(take_long(take)?);
    let begun = take_apart(take, created)?;
    let until = take_apart(take, begun)?;
    let ended = take_apart(take, begun)?;
    let about = take_blob(take)?;
    let ending = if given(2) { Some(take_blob(take)?) } else { None };
    let tie = if given(3) { Some(Box::new(take_receipt(take)?)) } else { None };
    let message = if given(4) {
        let topic = TopicId(take_short(take)?);
        Some(Spotted { topic, partition: take_short(take)?, offset: take_long(take)? })
    } else {
        None
    };
    take.done()?;
    Ok(Effect {
        identity,
        request,
        status,
        released,
        raised,
        delivery,
        on_lapse: if given(0) { OnLapse::Hold } else { OnLapse::Retry },
        epoch,
        attempts,
        attempts_max,
        tenant,
        scope,
        about,
        ending,
        digest,
        caller,
        created,
        begun,
        until,
        ended,
        ttl_ms,
        owner,
        tie,
        message,
        run,
    })
}

fn put_blob(out: &mut Vec<u8>, blob: Blob) {
    put_long(out, u64::from(blob.position.segment()));
    put_long(out, u64::from(blob.position.0 as u32));
    put_long(out, u64::from(blob.length));
    out.put_u32(blob.check);
}

fn take_blob(take: &mut Take<'_>) -> Result<Blob, Malformed> {
    let (segment, byte) = (u64::from(take_short(take)?), u64::from(take_short(take)?));
    Ok(Blob { position: Position(segment << 32 | byte), length: take_short(take)?, check: take.u32()? })
}

/// A time as its distance from another that is nearly always near it; any two times can be encoded.
fn put_apart(out: &mut Vec<u8>, time: Time, from: Time) {
    let apart = time.0.wrapping_sub(from.0).cast_signed();
    put_long(out, (apart << 1 ^ apart >> 63).cast_unsigned());
}

fn take_apart(take: &mut Take<'_>, from: Time) -> Result<Time, Malformed> {
    let folded = take_long(take)?;
    let apart = (folded >> 1) ^ (folded & 1).wrapping_neg();
    Ok(Time(from.0.wrapping_add(apart)))
}

/// Seven bits to a byte, the lowest first; the highest bit says that more follow.
fn put_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn take_long(take: &mut Take<'_>) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(take.malformed())
}

fn take_short(take: &mut Take<'_>) -> Result<u32, Malformed> {
    u32::try_from(take_long(take)?).map_err(|_| take.malformed())
}

#[cfg(test)]
pub(in crate::state::effect) mod tests {
    use super::*;
    use crate::ledger::Status;
    use crate::words::id::{GroupId, Token};
    use crate::words::receipt::Receipt;

    /// A record whose fields are all drawn: small, large, none and the largest there are.
    pub(in crate::state::effect) fn drawn(seed: &mut u64) -> Effect {
        let mut draw = || {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = *seed >> 33;
            match bits % 4 {
                0 => 0,
                1 => bits % 200,
                2 => bits << 31 | bits,
                _ => u64::MAX - bits % 3,
            }
        };
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&draw().to_le_bytes());
        let blob = |a: u64, b: u64| Blob { position: Position(a), length: b as u32, check: (a ^ b) as u32 };
        let receipt = |a: u64, b: u64| Receipt {
            topic: TopicId(a as u32),
            group: GroupId(b as u32),
            partition: 7,
            offset: a,
            token: Token { epoch: b, n: a },
        };
        Effect {
            identity: Identity(identity),
            request: RequestHash(draw()),
            status: Status::ALL[(draw() % 5) as usize],
            on_lapse: if draw() % 2 == 0 { OnLapse::Hold } else { OnLapse::Retry },
            epoch: draw() as u32,
            attempts: draw() as u32,
            attempts_max: Some(draw() as u32).filter(|most| most % 2 == 0),
            tenant: draw() as u32,
            scope: draw() as u32,
            about: blob(draw(), draw()),
            ending: Some(blob(draw(), draw())).filter(|blob| blob.length % 2 == 0),
            digest: draw(),
            caller: draw(),
            created: Time(draw()),
            begun: Time(draw()),
            until: Time(draw()),
            ended: Time(draw()),
            ttl_ms: draw(),
            owner: alloc::format!("worker {}", draw() % 5).into(),
            tie: Some(Box::new(receipt(draw(), draw()))).filter(|tie| tie.offset % 2 == 0),
            message: Some(Spotted {
                topic: TopicId(draw() as u32),
                partition: draw() as u32,
                offset: draw(),
            })
            .filter(|message| message.partition % 2 == 0),
            released: draw() % 2 == 0,
            raised: draw() % 2 == 0,
            delivery: draw() as u32,
            run: draw(),
        }
    }

    #[test]
    fn only_the_newest_chunk_has_room_for_what_is_to_come() {
        let (mut seed, mut packed) = (1, Packed::default());
        // One record in each chunk, as where most have expired.
        for chunk in 0..10 {
            packed.put(chunk * CHUNK_RECORDS, &drawn(&mut seed));
            let room = |chunk: &Chunk| chunk.bytes.capacity() - chunk.bytes.len();
            let rooms: Vec<usize> = packed.chunks.values().rev().map(room).collect();
            assert!(
                rooms[0] > SLACK_BYTES && rooms[1..].iter().all(|room| *room <= SLACK_BYTES),
                "{rooms:?}"
            );
        }
        let (newest, first) = (9 * CHUNK_RECORDS, packed.chunks[&9].bytes.as_ptr());
        let effect = packed.get(newest).unwrap();
        for number in newest..newest + CHUNK_RECORDS {
            packed.put(number, &effect);
        }
        assert_eq!(packed.chunks[&9].bytes.as_ptr(), first, "it was moved");
    }

    #[test]
    fn a_record_comes_back_as_it_was_whatever_it_says() {
        let mut seed = 1;
        let (mut packed, mut plain) = (Packed::default(), BTreeMap::new());
        for step in 0..20_000_u64 {
            let effect = drawn(&mut seed);
            let number = 1 + (step * 7_919) % 300;
            if step % 3 == 0 {
                assert_eq!(packed.remove(number), plain.remove(&number));
            } else {
                packed.put(number, &effect);
                plain.insert(number, effect);
            }
            assert_eq!((packed.len(), packed.get(number)), (plain.len(), plain.get(&number).cloned()));
            let identity = plain.get(&number).map(|effect| effect.identity);
            assert_eq!(packed.identity(number), identity);
            if step % 1000 == 0 {
                let from = step % 300;
                let expected = plain.range(from..).map(|(number, effect)| (*number, effect.clone()));
                assert!(packed.from(from).eq(expected), "from {from}");
            }
        }
        for number in 0..=300 {
            packed.remove(number);
        }
        assert_eq!((packed.len(), packed.chunks.len()), (0, 0));
        assert_eq!((packed.owners.numbers.len(), packed.owners.free.len()), (0, packed.owners.names.len()));
        assert!(packed.owners.names.len() <= 6, "names are used again");
    }
}
