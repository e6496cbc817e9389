//! What goes in and out: names, requests, answers, refusals, settings, messages, and the bytes they are made of.

pub(crate) mod action;
pub(crate) mod audit;
pub(crate) mod blob;
pub(crate) mod codec;
pub(crate) mod commit;
pub(crate) mod description;
pub(crate) mod draft;
pub(crate) mod effect;
pub(crate) mod entity;
pub(crate) mod id;
pub(crate) mod input;
pub(crate) mod key;
pub(crate) mod letter;
pub(crate) mod message;
pub(crate) mod order;
pub(crate) mod origin;
pub(crate) mod output;
pub(crate) mod policy;
pub(crate) mod receipt;
pub(crate) mod reject;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod scoped;
pub(crate) mod settings;
pub(crate) mod tenant;
pub(crate) mod topic;
