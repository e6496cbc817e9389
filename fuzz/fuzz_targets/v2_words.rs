//! Bodies of `/v2`: every call that takes one. A body is refused or it is read; neither takes the reader down.
#![no_main]

use driftq_api::v2::{
    Ack, CommitCall, CutOver, EffectBeginCall, EffectFinish, EffectGet, EffectReacquire, EffectRelease,
    EffectRenew, EffectResolve, Extend, KeyRotate, KeySpec, LeaseRequest, Message, Nack, Purge, Redrive,
    Release, RollBack, RouterTest, Seal, Seek, TopicPatch, TopicSpec,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Ack::from_json(bytes);
    let _ = CommitCall::from_json(bytes);
    let _ = CutOver::from_json(bytes);
    let _ = EffectBeginCall::from_json(bytes);
    let _ = EffectFinish::from_json(bytes);
    let _ = EffectGet::from_json(bytes);
    let _ = EffectReacquire::from_json(bytes);
    let _ = EffectRelease::from_json(bytes);
    let _ = EffectRenew::from_json(bytes);
    let _ = EffectResolve::from_json(bytes);
    let _ = Extend::from_json(bytes);
    let _ = KeyRotate::from_json(bytes);
    let _ = KeySpec::from_json(bytes);
    let _ = LeaseRequest::from_json(bytes);
    let _ = Message::from_json(bytes);
    let _ = Nack::from_json(bytes);
    let _ = Purge::from_json(bytes);
    let _ = Redrive::from_json(bytes);
    let _ = Release::from_json(bytes);
    let _ = RollBack::from_json(bytes);
    let _ = RouterTest::from_json(bytes);
    let _ = Seal::from_json(bytes);
    let _ = Seek::from_json(bytes);
    let _ = TopicPatch::from_json(bytes);
    let _ = TopicSpec::from_json(bytes);
});
