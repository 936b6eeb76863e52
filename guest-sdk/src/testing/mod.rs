//! For the tests of a strategy, by plain `cargo test`: doubles of the imports ([`Host`]), groups described readably
//! ([`GroupBuilder`]), and the check that the host makes of a plan ([`check`]). Not there on WebAssembly.
//!
//! ```
//! use assignor_guest_sdk::testing::{self, GroupBuilder, Host};
//! use assignor_guest_sdk::{Error, Group, Plan, Strategy, config, warn};
//!
//! /// Gives everything to the member that the configuration names.
//! #[derive(Default)]
//! struct Favourite;
//!
//! impl Strategy for Favourite {
//!     fn name(&self) -> &str {
//!         "favourite"
//!     }
//!     fn assign(&self, group: &Group) -> Result<Plan, Error> {
//!         let id: String = config::require("favourite")?;
//!         let Some(member) = group.member(&id) else {
//!             warn!("{id} is not there");
//!             return Err(Error::new("the favourite is not there"));
//!         };
//!         let mut plan = group.plan();
//!         group.partitions().for_each(|partition| plan.give(member, partition));
//!         Ok(plan)
//!     }
//! }
//!
//! let group = GroupBuilder::new().topic("orders", 2).member("m1", ["orders"]).member("m2", ["orders"]).build();
//!
//! let host = Host::new().config("favourite", "m2").install();
//! let plan = Favourite.assign(&group)?;
//! testing::check(&group, &plan)?;
//! assert_eq!(testing::names(&group, &plan), [("m1", vec![]), ("m2", vec!["orders-0".into(), "orders-1".into()])]);
//! assert!(host.log_lines().is_empty());
//! drop(host);
//!
//! let host = Host::new().config("favourite", "m3").install();
//! assert!(Favourite.assign(&group).is_err());
//! assert_eq!(host.log_lines()[0].1, "m3 is not there");
//! # Ok::<(), Error>(())
//! ```
#![allow(
    clippy::panic,
    reason = "a double fails the test that describes something impossible, and a panic is how a test fails"
)]

mod group;
mod host;
mod plan;
#[cfg(test)]
mod tests;

pub use group::GroupBuilder;
pub(crate) use host::Double;
pub use host::{Host, Installed};
pub use plan::{Unsound, after, check, names};
