//! The words of `/v2`: resources, pages, problem details.
//!
//! Readers of these types ignore fields they do not know, so that an older command line can talk to a newer server.

mod group;
mod page;
mod problem;
mod status;
mod topic;

pub use group::{Group, GroupPartition, Groups};
pub use page::{LIMIT_DEFAULT, LIMIT_MAX, Page, encode_cursor};
pub use problem::Problem;
pub use status::{Health, Recovery, Status};
pub use topic::{Partition, Topic, TopicSummary, Topics};
