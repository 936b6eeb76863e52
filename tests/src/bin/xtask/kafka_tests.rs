//! Kafka's own unit tests of its assignors, run against ours.

use crate::steps::FEATURES;
use crate::workspace::{Workspace, run};

/// The tests that are not meant to pass, and why.
const LISTED: &str = "tests/java/kafka-tests/listed.txt";

/// Builds the program that serves our assignors, and runs Kafka's tests, which `xtask java` has fetched, against it. Fails
/// unless exactly the listed ones fail.
pub(crate) fn kafka_tests(workspace: &Workspace) -> anyhow::Result<()> {
    run(workspace.cargo(&["build", "--workspace", "--example", "assignor-peer"]).args(FEATURES))?;
    let peer = workspace.target.join("debug/examples/assignor-peer");
    let mut java = workspace.command("java", &[]);
    java.arg(format!("-Dassignor.peer={}", peer.display()));
    java.arg("-jar").arg(workspace.target.join("java/kafka-tests/kafka-tests.jar"));
    run(java.arg(LISTED))
}
