//! What DriftQ does on this machine: the benchmark, and a demo that kills workers.

#[cfg(feature = "bench")]
pub mod bench;
pub mod demo;
